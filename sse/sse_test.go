package sse_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/sse"
)

var errCut = errors.New("the connection was cut")

// pieces is a reader that returns one element per Read, then err.
type pieces struct {
	parts []string
	err   error
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.parts) > 0 && p.parts[0] == "" {
		p.parts = p.parts[1:]
	}
	if len(p.parts) == 0 {
		return 0, p.err
	}
	n := copy(b, p.parts[0])
	p.parts[0] = p.parts[0][n:]
	return n, nil
}

// bytewise divides text into pieces of one byte.
func bytewise(text string) []string {
	parts := make([]string, len(text))
	for i := range parts {
		parts[i] = text[i : i+1]
	}
	return parts
}

// result holds everything that was read from a stream.
type result struct {
	events []string
	raw    string
	rest   string
	last   string
	err    error
}

// show formats an event for comparison.
func show(e sse.Event) string {
	s := ""
	if e.Name != nil {
		s += fmt.Sprintf("event=%q ", e.Name)
	}
	if e.ID != nil {
		s += fmt.Sprintf("id=%q ", e.ID)
	}
	if !e.HasData {
		return s + "no data"
	}
	return s + fmt.Sprintf("data=%q", e.Data)
}

// readAll reads to the end with Batch and checks the invariants of every batch.
func readAll(t testing.TB, src io.Reader, o sse.Options) result {
	t.Helper()
	return readWith(t, src, o, func(*sse.Reader) {})
}

// readSwapping reads to the end and uses another buffer after each batch. It
// overwrites the previous buffer.
func readSwapping(t testing.TB, src io.Reader, o sse.Options) result {
	t.Helper()
	used, spare := o.Buffer, make([]byte, 24)
	return readWith(t, src, o, func(r *sse.Reader) {
		if r.Use(spare) {
			used, spare = spare, used
			for i := range spare {
				spare[i] = '!'
			}
		}
	})
}

// readWith reads to the end with Batch and calls after after each batch.
func readWith(t testing.TB, src io.Reader, o sse.Options, after func(*sse.Reader)) result {
	t.Helper()
	var got result
	var raw strings.Builder
	r := sse.NewReader(src, o)
	for {
		b, err := r.Batch()
		if err != nil {
			got.err = err
			break
		}
		if len(b.Raw) == 0 {
			t.Fatal("a batch without bytes")
		}
		raw.Write(b.Raw)
		end := 0
		for e := range b.Events() {
			if e.Start < end || string(b.Raw[e.Start:e.End]) != string(e.Raw) {
				t.Fatalf("event %s at %d:%d, after one that ends at %d, has Raw %q", show(e), e.Start, e.End, end, e.Raw)
			}
			end = e.End
			got.events = append(got.events, show(e))
		}
		after(r)
	}
	got.raw, got.rest = raw.String(), string(r.Rest())
	if e, ok := r.Last(); ok {
		got.last = show(e)
	}
	if _, err := r.Batch(); !errors.Is(err, got.err) {
		t.Fatalf("the error was %v and is now %v", got.err, err)
	}
	return got
}

// reference is a simple, slow implementation of the standard's rules.
func reference(text string, limit int) result {
	var want result
	var block []string // the fields of the open block
	lineStart, released := 0, 0
	if strings.HasPrefix(text, "\xEF\xBB\xBF") {
		lineStart = 3
	}
	for i := lineStart; i < len(text); i++ {
		if i+1-released > limit {
			want.err = &sse.TooLongError{Limit: limit}
			break
		}
		c := text[i]
		if c != '\n' && c != '\r' {
			continue
		}
		line := text[lineStart:i]
		lineStart = i + 1
		switch {
		case c == '\n' && i > 0 && text[i-1] == '\r': // the rest of a CRLF
		case line == "":
			if block != nil {
				want.events = append(want.events, referenceEvent(block))
			}
			block = nil
		case line[0] != ':':
			block = append(block, line)
		}
		if block == nil {
			released = i + 1
		}
	}
	want.raw, want.rest = text[:released], text[released:]
	if want.err == nil {
		want.err = io.EOF
		if lineStart < len(text) && text[lineStart] != ':' {
			block = append(block, text[lineStart:])
		}
		if last := referenceEvent(block); strings.Contains(last, "data=") {
			want.last = last
		}
	}
	return want
}

func referenceEvent(block []string) string {
	var e sse.Event
	var data []string
	for _, line := range block {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.Name = []byte(value)
		case "id":
			if !strings.Contains(value, "\x00") {
				e.ID = []byte(value)
			}
		case "data":
			data = append(data, value)
		}
	}
	e.HasData = data != nil
	e.Data = []byte(strings.Join(data, "\n"))
	return show(e)
}

func sameError(t testing.TB, how string, got, want error) {
	t.Helper()
	g, ok := errors.AsType[*sse.TooLongError](got)
	if w, long := errors.AsType[*sse.TooLongError](want); ok != long || ok && *g != *w {
		t.Fatalf("%s: error is %v, want %v", how, got, want)
	}
	if !ok && !errors.Is(got, want) {
		t.Fatalf("%s: error is %v, want %v", how, got, want)
	}
}
