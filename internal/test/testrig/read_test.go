package testrig

import (
	"net/http"
	"strings"
	"testing"
)

func (d Dialect) stream(body string) Response {
	return Response{Status: 200, Header: http.Header{"Content-Type": {d.StreamMedia()}}, Body: []byte(body)}
}

func bodyOf(status int, body string) Response {
	return Response{Status: status, Header: http.Header{"Content-Type": {JSONMedia}}, Body: []byte(body)}
}

// TestRepliesAreComplete checks that the replies of the fake upstream are complete
// responses.
func TestRepliesAreComplete(t *testing.T) {
	for _, d := range Dialects() {
		a := Reply{Dialect: d, Words: Words("good")}
		for name, v := range map[string]Outcome{
			"stream": d.Read(d.stream(strings.Join(a.Stream().All(), "")), true),
			"whole":  d.Read(bodyOf(200, a.Body()), false),
		} {
			if !v.Complete() || v.Text != Text("good") {
				t.Errorf("%s, %s: %s", d, name, v)
			}
		}
	}
}

// TestTruncatedStreams checks that a truncated stream is never Complete, and that
// MayPassForComplete holds for it unless it ends with an error event.
func TestTruncatedStreams(t *testing.T) {
	for _, d := range Dialects() {
		s := Reply{Dialect: d, Words: Words("bad")}.Stream()
		begun := strings.Join(append(append([]string{}, s.Head...), s.Words[:5]...), "")
		if v := d.Read(d.stream(begun), true); v.Complete() || !v.MayPassForComplete() {
			t.Errorf("%s: a stream that just ends: %s", d, v)
		}
		v := d.Read(d.stream(begun+d.ErrorEvent(500, "died", len(s.Head)+5)), true)
		if v.Complete() || v.MayPassForComplete() || v.Error != "died" || v.Invalid != "" || v.Text != strings.Join(Words("bad")[:5], "") {
			t.Errorf("%s: a stream that ends in an error: %s", d, v)
		}
		if v := d.Read(d.stream(begun+d.ErrorEvent(500, "died", len(s.Head)+5)+strings.Join(s.Tail, "")), true); !v.MayPassForComplete() {
			t.Errorf("%s: an end after the error: %s", d, v)
		}
		if v := d.Read(d.stream(begun+"data: {\"half"), true); v.Invalid == "" {
			t.Errorf("%s: half an event: %s", d, v)
		}
		if v := d.Read(d.stream(begun+"data: {\"half\n\n"), true); v.Invalid == "" {
			t.Errorf("%s: an event of half an object: %s", d, v)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, d := range Dialects() {
		if v := d.Read(bodyOf(503, d.ErrorBody(503, "busy")), false); v.Error != "busy" || v.Invalid != "" || v.Complete() {
			t.Errorf("%s: its own error: %s", d, v)
		}
		if v := d.Read(bodyOf(200, d.ErrorBody(503, "busy")), false); v.Invalid == "" {
			t.Errorf("%s: an error with status 200: %s", d, v)
		}
		for _, body := range []string{"", "<html>", "{}", `{"error":{}}`, `{"error":"busy"}`} {
			if v := d.Read(bodyOf(502, body), true); v.Invalid == "" {
				t.Errorf("%s: %q passes for an error: %s", d, body, v)
			}
		}
	}
	if v := Messages.Read(bodyOf(503, Chat.ErrorBody(503, "busy")), false); v.Invalid == "" {
		t.Errorf("OpenAI's error to a client of Messages: %s", v)
	}
	if v := Gemini.Read(bodyOf(503, Chat.ErrorBody(503, "busy")), false); v.Invalid == "" {
		t.Errorf("OpenAI's error to a client of Gemini: %s", v)
	}
}

func TestBodyIsNoStream(t *testing.T) {
	for _, d := range Dialects() {
		a := Reply{Dialect: d, Words: Words("good")}
		if v := d.Read(bodyOf(200, a.Body()), true); v.Complete() || v.Invalid == "" {
			t.Errorf("%s: a body where a stream was asked for: %s", d, v)
		}
		if v := d.Read(d.stream(a.Body()), true); v.Complete() {
			t.Errorf("%s: a body that calls itself a stream: %s", d, v)
		}
	}
}

func TestFinishOffset(t *testing.T) {
	for _, d := range Dialects() {
		text := strings.Join(Reply{Dialect: d, Words: Words("bad")}.Stream().All(), "")
		at := FinishOffset(d, "bad")
		end := "\n\n"
		if d == Converse { // its frames have no blank line
			end = ""
		}
		if v := d.Read(d.stream(text[:at]+end), true); !v.Finished {
			t.Errorf("%s: no finish at %d: %s", d, at, v)
		}
		if v := d.Read(d.stream(text[:at-1]+end), true); v.Finished {
			t.Errorf("%s: finished before %d: %s", d, at, v)
		}
	}
}

// TestUsageOnlyWhenAsked checks that a Chat stream has usage only if it was requested.
func TestUsageOnlyWhenAsked(t *testing.T) {
	for _, asked := range []bool{false, true} {
		text := strings.Join(Reply{Dialect: Chat, Words: Words("good"), Usage: asked}.Stream().All(), "")
		if strings.Contains(text, `"usage"`) != asked {
			t.Errorf("asked for usage: %t, got %s", asked, text)
		}
	}
}
