package main

import (
	"encoding/json"
	"fmt"
	"time"
)

// wish is what a client wants, and what the upstream shall make of it. The second
// half travels in the prompt.
type wish struct {
	key    key
	model  string
	node   int
	most   int    // max_tokens; 0: as many as are said
	stream bool   // an answer in events
	other  bool   // in the dialect of Messages, which is translated, and not in the upstream's own
	leave  int    // go away after so many tokens; 0: stay
	once   string // Idempotency-Key
	more   string // text that stands in the prompt as well

	script
}

// script is the part for the upstream.
type script struct {
	Tag   string        `json:"tag"`
	Say   int           `json:"say"`             // tokens
	Every time.Duration `json:"every,omitempty"` // between two of them
	Wait  time.Duration `json:"wait,omitempty"`  // before the first
	Hold  bool          `json:"hold,omitempty"`  // after the last, until the other side goes
	Fault fault         `json:"fault,omitempty"`
	After int           `json:"after,omitempty"` // tokens before the fault
	Who   string        `json:"who,omitempty"`   // the fault is only this upstream's
	Times int           `json:"times,omitempty"` // and only of the first attempts; 0: of all
}

// fault is how an upstream fails.
type fault string

// The faults, by phase.
const (
	refuses   fault = "reset before the head"
	errors500 fault = "500"
	errors503 fault = "503"
	silent    fault = "no head"
	resets    fault = "reset after the head"
	cuts      fault = "cut"   // after some tokens
	hangs     fault = "hangs" // after some tokens
)

// dialect is how a client speaks. The bodies that are sent are the same in both.
type dialect struct {
	path string
	id   string // header with the request's
	last string // in the last event
	stop string // in a whole body
}

func (w wish) dialect() dialect {
	if w.other {
		return dialect{path: "/v1/messages", id: "Request-Id", last: `"message_stop"`, stop: `"stop_reason":"end_turn"`}
	}
	return dialect{path: "/v1/chat/completions", id: "X-Request-Id", last: "[DONE]", stop: `"finish_reason":"stop"`}
}

const prologue = "do this: "

// body is the request as it is sent.
func (w wish) body() string {
	text, err := json.Marshal(w.script)
	if err != nil {
		panic(err) // plain fields
	}
	prompt, _ := json.Marshal(prologue + string(text) + w.more) // a string
	most := w.most
	if most == 0 {
		most = max(w.Say, 1)
	}
	return fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":%d,"messages":[{"role":"user","content":%s}]}`, w.model, w.stream, most, prompt)
}

// fails reports whether an attempt is one that shall fail.
func (s script) fails(who string, try int) bool {
	return s.Fault != "" && (s.Who == "" || s.Who == who) && (s.Times == 0 || try <= s.Times)
}
