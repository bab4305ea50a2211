package sse_test

import (
	"io"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/sse"
)

func TestAppendEvent(t *testing.T) {
	for _, c := range []struct{ name, event, data, want string }{
		{"data only", "", `{"a":1}`, "data: {\"a\":1}\n\n"},
		{"named", "ping", "{}", "event: ping\ndata: {}\n\n"},
		{"empty", "", "", "data: \n\n"},
		{"leading space", " e", " x", "event:  e\ndata:  x\n\n"},
		{"several lines", "", "a\nb\r\nc\rd", "data: a\ndata: b\ndata: c\ndata: d\n\n"},
		{"line end last", "", "a\n", "data: a\ndata: \n\n"},
		{"injection by data", "", "a\n\nevent: x\rdata: b\r\n\r\n", "data: a\ndata: \ndata: event: x\ndata: data: b\ndata: \ndata: \n\n"},
		{"injection by name", "a\ndata: x\r\n\r\nevent: b\x00", "y", "event: adata: xevent: b\ndata: y\n\n"},
		{"nothing left of the name", "\r\n", "y", "event: \ndata: y\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(sse.AppendEvent([]byte("before|"), c.event, []byte(c.data)))
			if got != "before|"+c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// SSE-10: a comment has no blank line after it.
func TestAppendComment(t *testing.T) {
	for text, want := range map[string]string{
		"":                    ":\n",
		"ping":                ": ping\n",
		"a\nb\r\nc":           ": a\n: b\n: c\n",
		"x\n\ndata: evil\n\n": ": x\n: \n: data: evil\n: \n: \n",
	} {
		got := string(sse.AppendComment(nil, text))
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if read := readAll(t, strings.NewReader(got), sse.Options{}); len(read.events) != 0 || read.rest != "" {
			t.Errorf("%q: read as %v with rest %q", text, read.events, read.rest)
		}
	}
}

// written returns the data that a reader gets for data.
func written(data string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
}

func FuzzAppendEvent(f *testing.F) {
	f.Add("", "", "")
	f.Add("ping", `{"a":1}`, "keep-alive")
	f.Add("a\r\nb\x00", " x\r\r\n\ny\n", "\n\ndata: x\n\n")
	f.Add("\xEF\xBB\xBF", "\xff\x00:", "\r")
	f.Fuzz(func(t *testing.T, name, data, comment string) {
		out := sse.AppendComment(nil, comment)
		out = sse.AppendEvent(out, name, []byte(data))
		out = sse.AppendComment(out, comment)
		out = sse.AppendEvent(out, name, []byte(data))

		want := sse.Event{Data: []byte(written(data)), HasData: true}
		if name != "" {
			want.Name = []byte(strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(name))
		}
		got := readAll(t, strings.NewReader(string(out)), sse.Options{})
		same(t, "round trip", got, result{events: []string{show(want), show(want)}, raw: string(out), err: io.EOF})
	})
}
