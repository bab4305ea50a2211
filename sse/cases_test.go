package sse_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/sse"
)

// cases lists streams that end in io.EOF. They are also the seeds of the fuzz tests.
var cases = []struct {
	name   string
	in     string
	events []string
	rest   string
	last   string
}{
	{
		name:   "SSE-01 no space after the colon",
		in:     "event:e\ndata:{\"a\":1}\nid:7\nretry:5\n\ndata:[DONE]\n\n",
		events: []string{`event="e" id="7" data="{\"a\":1}"`, `data="[DONE]"`},
	},
	{
		name:   "SSE-02 one space is stripped, not all whitespace",
		in:     "data:  x \n\nevent:  e\ndata:\tx\n\n",
		events: []string{`data=" x "`, `event=" e" data="\tx"`},
	},
	{
		name:   "SSE-03 CRLF",
		in:     "event: e\r\ndata: a\r\n\r\ndata: b\r\n\r\n",
		events: []string{`event="e" data="a"`, `data="b"`},
	},
	{
		name:   "SSE-04 bare CR",
		in:     "data: a\r\rdata: b\rdata: c\r\r",
		events: []string{`data="a"`, `data="b\nc"`},
	},
	{
		name:   "SSE-04 mixed endings",
		in:     "data: a\n\r\ndata: b\r\n\ndata: c\r\n\rdata: d\n\rdata: e\r\n\r\n",
		events: []string{`data="a"`, `data="b"`, `data="c"`, `data="d"`, `data="e"`},
	},
	{
		name:   "SSE-04 one LF after a CR is swallowed, the second ends a line",
		in:     "data: a\r\n\r\n\n\ndata: b\r\n\n",
		events: []string{`data="a"`, `data="b"`},
	},
	{
		name:   "SSE-05 byte order mark",
		in:     "\xEF\xBB\xBFdata: a\n\n",
		events: []string{`data="a"`},
	},
	{
		name:   "SSE-05 only one, and only at the start",
		in:     "\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\n\xEF\xBB\xBFdata: b\n\ndata: \xEF\xBB\xBFc\n\n",
		events: []string{`no data`, `no data`, `data="\ufeffc"`},
	},
	{
		name:   "SSE-05 byte order mark before a comment and before a blank line",
		in:     "\xEF\xBB\xBF: hi\n\ndata: a\n\n",
		events: []string{`data="a"`},
	},
	{
		name: "SSE-05 nothing but a byte order mark",
		in:   "\xEF\xBB\xBF",
		rest: "\xEF\xBB\xBF",
	},
	{
		name: "SSE-05 half a byte order mark",
		in:   "\xEF\xBB",
		rest: "\xEF\xBB",
	},
	{
		name:   "SSE-05 what begins like a byte order mark",
		in:     "\xEF\xBBdata: a\ndata: b\n\n",
		events: []string{`data="b"`},
	},
	{
		name: "SSE-06 comment heartbeats",
		in:   ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\r\n\r\n",
	},
	{
		name:   "SSE-06 comments within an event",
		in:     "data: a\n: wait\ndata: b\n:\n\n",
		events: []string{`data="a\nb"`},
	},
	{
		name:   "SSE-07 a heartbeat that is a single colon",
		in:     ":\n\n:\ndata: a\n\n:\n",
		events: []string{`data="a"`},
	},
	{
		name:   "SSE-08 a heartbeat dressed as data",
		in:     "data: : keepalive\n\ndata:\n\ndata: \n\ndata\n\n",
		events: []string{`data=": keepalive"`, `data=""`, `data=""`, `data=""`},
	},
	{
		name:   "SSE-09 named event with no data",
		in:     "event: keepalive\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n",
		events: []string{`event="keepalive" no data`, `event="ping" data="{\"type\":\"ping\"}"`},
	},
	{
		name:   "SSE-11 several data lines",
		in:     "data: {\"a\":1,\ndata: \"b\":2}\n\ndata:\ndata:\n\ndata: x\nevent: e\ndata\ndata: y\n\n",
		events: []string{`data="{\"a\":1,\n\"b\":2}"`, `data="\n"`, `event="e" data="x\n\ny"`},
	},
	{
		name:   "SSE-15 multi-byte characters",
		in:     "data: 漢字😀\n\n",
		events: []string{`data="漢字😀"`},
	},
	{
		name: "SSE-17 no blank line at the end",
		in:   "data: {\"finish_reason\":\"stop\"}\n",
		rest: "data: {\"finish_reason\":\"stop\"}\n",
		last: `data="{\"finish_reason\":\"stop\"}"`,
	},
	{
		name:   "SSE-17 no line end at the end",
		in:     "data: a\n\nevent: e\ndata: b\ndata: c",
		events: []string{`data="a"`},
		rest:   "event: e\ndata: b\ndata: c",
		last:   `event="e" data="b\nc"`,
	},
	{
		name: "SSE-17 byte order mark and no blank line",
		in:   "\xEF\xBB\xBFdata: a\r\n",
		rest: "\xEF\xBB\xBFdata: a\r\n",
		last: `data="a"`,
	},
	{
		name:   "SSE-17 the unfinished block has no data",
		in:     "data: a\n\nevent: e\n",
		events: []string{`data="a"`},
		rest:   "event: e\n",
	},
	{
		name:   "SSE-17 the unfinished line is a comment",
		in:     "data: a\n\n: ke",
		events: []string{`data="a"`},
		rest:   ": ke",
	},
	{
		name: "SSE-27 a bare JSON error is left as the rest",
		in:   `{"error":{"message":"no"}}`,
		rest: `{"error":{"message":"no"}}`,
	},
	{
		name:   "SSE-27 a bare JSON error with a blank line is an event without data",
		in:     "{\"error\":{\"message\":\"no\"}}\n\n",
		events: []string{`no data`},
	},
	{
		name:   "SSE-29 unknown fields, retry and id",
		in:     "retry: 3000\n\nid: 7\nfoo: bar\ndata: a\nretry: x\n datax: b\nData: c\ndatas\n\n",
		events: []string{`no data`, `id="7" data="a"`},
	},
	{
		name:   "an id with a colon, an id with NUL, the last one counts",
		in:     "id: a:b\nid: c\x00d\ndata: x\n\nid: 1\nid\nevent: e\nevent: f\ndata: y\n\n",
		events: []string{`id="a:b" data="x"`, `event="f" id="" data="y"`},
	},
	{
		name:   "data may hold NUL and bytes that are no UTF-8",
		in:     "data: \x00\xff\n\n",
		events: []string{`data="\x00\xff"`},
	},
	{
		name: "an empty stream",
	},
	{
		name: "blank lines only",
		in:   "\n\r\n\r\r\n\n",
	},
}

func TestCases(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := readAll(t, strings.NewReader(c.in), sse.Options{})
			want := result{events: c.events, raw: strings.TrimSuffix(c.in, c.rest), rest: c.rest, last: c.last, err: io.EOF}
			same(t, "whole", got, want)
			// The fuzz tests compare with the reference.
			same(t, "reference", reference(c.in, 1<<20), want)
		})
	}
}

// SSE-16: the events are the same for one read, for reads of single bytes and for two
// reads divided at any offset.
func TestEventsDoNotDependOnReads(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			want := readAll(t, strings.NewReader(c.in), sse.Options{})
			src := &pieces{parts: bytewise(c.in), err: io.EOF}
			same(t, "bytewise", readAll(t, src, sse.Options{}), want)
			for i := range len(c.in) {
				src := &pieces{parts: []string{c.in[:i], c.in[i:]}, err: io.EOF}
				same(t, "cut", readAll(t, src, sse.Options{Buffer: make([]byte, 5)}), want)
			}
		})
	}
}

// After any number of bytes, the Reader has returned all events that the reference
// finds in them.
func TestEventsAreReturnedWhenComplete(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for i := range len(c.in) + 1 {
				got := readAll(t, &pieces{parts: bytewise(c.in[:i]), err: errCut}, sse.Options{})
				want := reference(c.in[:i], 1<<20)
				want.err, want.last = errCut, ""
				same(t, c.in[:i], got, want)
			}
		})
	}
}

func TestCommentsAreReturnedAtTheirLineEnd(t *testing.T) {
	in := []string{": pi", "ng\n", ":\r", "\n", "data: a\n", ": in\n", "\n", "\xEF\xBB\xBF: x\n", ": y\n"}
	var raws []string
	r := sse.NewReader(&pieces{parts: in, err: io.EOF}, sse.Options{})
	for b, err := r.Batch(); err == nil; b, err = r.Batch() {
		raws = append(raws, string(b.Raw))
	}
	// A byte order mark that is not at the start is an unknown field, so the
	// comment after it belongs to an event.
	want := []string{": ping\n", ":\r", "\n", "data: a\n: in\n\n"}
	if !slices.Equal(raws, want) || string(r.Rest()) != "\xEF\xBB\xBF: x\n: y\n" {
		t.Errorf("got %q and rest %q, want %q", raws, r.Rest(), want)
	}
}

func same(t testing.TB, how string, got, want result) {
	t.Helper()
	if !slices.Equal(got.events, want.events) {
		t.Fatalf("%s: events\n got %s\nwant %s", how, got.events, want.events)
	}
	if got.raw != want.raw || got.rest != want.rest {
		t.Fatalf("%s: raw and rest\n got %q %q\nwant %q %q", how, got.raw, got.rest, want.raw, want.rest)
	}
	if got.last != want.last {
		t.Fatalf("%s: last is %s, want %s", how, got.last, want.last)
	}
	sameError(t, how, got.err, want.err)
}
