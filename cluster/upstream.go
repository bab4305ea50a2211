package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// promptTokens is what the upstream reports of every prompt.
const promptTokens = 7

// word is one token however it is counted: four letters, one word, one event.
const word = " abc"

// scriptMark stands before the script in a prompt.
const scriptMark = "do this: "

// script tells the upstream how to answer.
type script struct {
	Tag   string        `json:"tag"`
	Say   int           `json:"say"`             // tokens
	Every time.Duration `json:"every,omitempty"` // between two of them
	Hold  bool          `json:"hold,omitempty"`  // keep the stream open after the last
	Fault fault         `json:"fault,omitempty"`
	After int           `json:"after,omitempty"` // tokens before the fault
	Who   string        `json:"who,omitempty"`   // only this upstream fails
	Times int           `json:"times,omitempty"` // only the first attempts fail; 0 means all
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

// fails reports whether an attempt is one that has to fail.
func (s script) fails(who string, try int) bool {
	return s.Fault != "" && (s.Who == "" || s.Who == who) && (s.Times == 0 || try <= s.Times)
}

// attempt is one attempt as the upstream saw it.
type attempt struct {
	tag      string
	who      string // which of the upstreams
	try      int    // the number of the attempt for this tag, from 1
	tokens   int    // words written to the connection
	complete bool
	fault    fault
	usage    bool   // it has reported usage
	bearer   string // the credential that came
	at       time.Time
}

// upstream is a Chat server that follows the scripts in prompts and records its
// attempts. It answers under any target name.
type upstream struct {
	*testrig.Upstream
	*testrig.Target // counts the open requests
	attempts        testrig.History[attempt]
	held            atomic.Int64 // streams that have sent all words and are kept open

	mu    sync.Mutex
	tries map[string]int
}

func newUpstream() (*upstream, error) {
	rig, err := testrig.NewUpstream()
	if err != nil {
		return nil, err
	}
	u := &upstream{Upstream: rig, tries: map[string]int{}}
	u.Target = rig.Handle("", u.answer)
	return u, nil
}

func (u *upstream) try(tag string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tries[tag]++
	return u.tries[tag]
}

// begun returns how many attempts with a tag have begun. attempts has those that ended.
func (u *upstream) begun(tag string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tries[tag]
}

func (u *upstream) answer(c *testrig.Call) (reuse bool) {
	var body struct {
		Messages []struct{ Content string }
	}
	var s script
	err := json.Unmarshal(c.Body, &body)
	if err == nil {
		_, text, _ := strings.Cut(body.Messages[len(body.Messages)-1].Content, scriptMark)
		err = json.NewDecoder(strings.NewReader(text)).Decode(&s) // further text may follow
	}
	if err != nil {
		return c.Error(http.StatusBadRequest, "no script: "+err.Error())
	}
	a := attempt{tag: s.Tag, who: c.Target, try: u.try(s.Tag), at: time.Now(), bearer: strings.TrimPrefix(c.Header.Get("Authorization"), "Bearer ")}
	defer func() {
		select {
		case <-c.Gone():
			a.complete = false
		default:
		}
		u.attempts.Add(a)
	}()
	if s.fails(a.who, a.try) {
		a.fault = s.Fault
	}
	switch a.fault {
	case errors500, errors503:
		return c.Error(map[fault]int{errors500: 500, errors503: 503}[a.fault], "no luck with "+errorCanary)
	case silent:
		return c.Hold()
	case refuses:
		return c.Reset()
	}
	r := testrig.Reply{Dialect: testrig.Chat, Words: strings.SplitAfter(strings.Repeat(word, s.Say), "c")[:s.Say], Usage: c.Usage, In: promptTokens, Out: s.Say}
	if c.Stream {
		return a.stream(c, s, r.Stream(), &u.held)
	}
	return a.whole(c, s, r.Body())
}

func (a *attempt) whole(c *testrig.Call, s script, body string) bool {
	if !c.Wait(time.Duration(s.Say) * s.Every) {
		return false
	}
	if a.fault != "" {
		c.Head(http.StatusOK, testrig.JSONMedia, len(body))
		c.Write(body[:len(body)/2])
		return a.fault == hangs && c.Hold()
	}
	if !c.Respond(http.StatusOK, testrig.JSONMedia, body) {
		return false
	}
	a.tokens, a.complete, a.usage = s.Say, true, true
	return true
}

func (a *attempt) stream(c *testrig.Call, s script, events testrig.Stream, held *atomic.Int64) bool {
	c.StartStream()
	if a.fault == resets {
		return c.Reset()
	}
	for i, event := range events.Words {
		if a.fault != "" && i == s.After {
			return a.fault == hangs && c.Hold()
		}
		if !c.Chunks(event) {
			return false
		}
		a.tokens++
		if !c.Wait(s.Every) {
			return false
		}
	}
	if s.Hold {
		held.Add(1)
		return c.Hold()
	}
	a.complete = c.Chunks(events.Tail...) && c.End()
	a.usage = a.complete && c.Usage
	return a.complete
}

// worker returns the entry of discovery for an upstream.
func (u *upstream) worker(model, who string) string {
	return fmt.Sprintf(`{"id":%q,"model":%q,"protocol":"openai-chat","url":%q,"name":"m"}`, who, model, u.URL(who, testrig.Chat))
}
