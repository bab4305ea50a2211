package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// A script tells the upstream how to answer. It is the model's name, which every gateway
// passes on:
//
//	whole-1024    one answer with 1,024 bytes of text
//	burst-200     200 events, each sent at once
//	paced-20      an event every 20 ms until the client disconnects
//	timed-24-5000 24 events with the time of their sending, one every 5,000 ms
//
// In the others the part after a second dash is ignored: it distinguishes models in a large table.
type script struct {
	kind  string
	n     int
	every time.Duration // of timed events
}

func parseScript(model string) (script, error) {
	parts := strings.SplitN(model, "-", 3)
	if len(parts) < 2 {
		return script{}, fmt.Errorf("model %q is no script; write whole-BYTES, burst-EVENTS, paced-MILLISECONDS or timed-EVENTS-MILLISECONDS", model)
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n <= 0 {
		return script{}, fmt.Errorf("model %q: %q is not a number above 0", model, parts[1])
	}
	switch parts[0] {
	case "whole", "burst", "paced":
		return script{kind: parts[0], n: n}, nil
	case "timed":
		if len(parts) == 3 {
			if every, err := strconv.Atoi(parts[2]); err == nil && every > 0 {
				return script{parts[0], n, time.Duration(every) * time.Millisecond}, nil
			}
		}
	}
	return script{}, fmt.Errorf("model %q: there is no script %q", model, parts[0])
}

// modelOf returns the model of a request without parsing the rest.
func modelOf(body []byte) string {
	_, rest, _ := bytes.Cut(body, []byte(`"model"`))
	_, rest, _ = bytes.Cut(rest, []byte(`"`))
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(name)
}

// modelIn returns the model in the path of a request, for dialects that have it there.
func modelIn(path string) string {
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == ':' }) {
		if _, err := parseScript(part); err == nil {
			return part
		}
	}
	return ""
}

// word is in every event that carries text, and in nothing else.
const word = "lorem"

// text returns n bytes of filler.
func text(n int) string {
	return strings.Repeat("lorem ipsum dolor sit amet ", n/27+1)[:n]
}

// wire is a reply in pieces that are made once.
type wire struct {
	head  string // the events before the first with text
	words []string
	tail  map[bool]string // the events after the last, without usage and with it
}

// newWire returns the pieces of a stream in an upstream's dialect.
func newWire(d testrig.Dialect, words int) wire {
	r := testrig.Reply{Dialect: d}
	for i := range words {
		r.Words = append(r.Words, fmt.Sprintf("%s%d ", word, i))
	}
	w := wire{tail: map[bool]string{}}
	for _, r.Usage = range []bool{false, true} {
		s := r.Stream()
		w.head, w.words, w.tail[r.Usage] = strings.Join(s.Head, ""), s.Words, strings.Join(s.Tail, "")
	}
	return w
}
