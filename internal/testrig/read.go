package testrig

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/sse"
)

// Response is a response as a client received it.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error // the connection failed
}

// Outcome is a response decoded by a client of its dialect.
type Outcome struct {
	Text     string // the words in order
	Finished bool   // it has a finish reason
	Ended    bool   // the dialect's last event arrived, if it has one
	Error    string // the message of the error at its end
	Code     string // of that error
	Invalid  string // the first violation of the dialect
}

// Complete reports whether a client considers the response complete.
func (o Outcome) Complete() bool {
	return o.Finished && o.Ended && o.Error == "" && o.Invalid == ""
}

// MayPassForComplete reports whether some client may consider the response complete. It
// must be false for every truncated response of the gateway.
func (o Outcome) MayPassForComplete() bool { return o.Finished || o.Error == "" }

func (o Outcome) String() string {
	return fmt.Sprintf("text %q, finished %t, ended %t, error %q (%s), invalid %q", Clip(o.Text, 80), o.Finished, o.Ended, o.Error, o.Code, o.Invalid)
}

// Read decodes a response as a client of the dialect.
func (d Dialect) Read(r Response, stream bool) Outcome {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch {
	case r.Status != http.StatusOK:
		return d.readError(r.Body)
	case stream && media != StreamMedia:
		return Outcome{Invalid: "the response to a stream request has content type " + media}
	case stream:
		return d.readStream(r.Body)
	case media != JSONMedia:
		return Outcome{Invalid: "the content type is " + media}
	}
	return d.readBody(r.Body)
}

func (d Dialect) readError(body []byte) Outcome {
	b := Parse(body)
	switch {
	case b == nil:
		return Outcome{Invalid: "the error is not JSON: " + Clip(string(body), 60)}
	case d == Messages && b.Str("type") != "error":
		return Outcome{Invalid: `the error has no "type":"error"`}
	}
	return d.readErrorObject(b.Obj("error"))
}

// readErrorObject checks that an error has the members that clients of the dialect need.
func (d Dialect) readErrorObject(e Object) Outcome {
	_, numeric := e["code"].(float64)
	switch {
	case e.Str("message") == "":
		return Outcome{Invalid: "the error has no message"}
	case d == Gemini && (e.Str("status") == "" || !numeric):
		return Outcome{Invalid: "the error lacks Gemini's numeric code or status"}
	case d != Gemini && e.Str("type") == "":
		return Outcome{Invalid: "the error has no type"}
	}
	return Outcome{Error: e.Str("message"), Code: e.Str("code")}
}

// outputText returns the text of a response's output items.
func outputText(response Object) (text string) {
	for _, item := range response.List("output") {
		text += item.Text("content")
	}
	return text
}

func (d Dialect) readBody(body []byte) Outcome {
	m := Parse(body)
	if m == nil {
		return Outcome{Invalid: "the body is not JSON: " + Clip(string(body), 60)}
	}
	if m.Has("error") {
		o := d.readErrorObject(m.Obj("error"))
		o.Invalid = "an error with status 200"
		return o
	}
	o := Outcome{Ended: true}
	choices, candidates := m.List("choices"), m.List("candidates")
	switch {
	case d == Chat && len(choices) == 1:
		o.Text, o.Finished = choices[0].Obj("message").Str("content"), choices[0].Has("finish_reason")
	case d == Responses:
		o.Text, o.Finished = outputText(m), m.Str("status") == "completed"
	case d == Messages:
		o.Text, o.Finished = m.Text("content"), m.Has("stop_reason")
	case d == Gemini && len(candidates) == 1:
		o.Text, o.Finished = candidates[0].Obj("content").Text("parts"), candidates[0].Has("finishReason")
	default:
		o.Invalid = "the body holds no answer"
	}
	return o
}

func (d Dialect) readStream(body []byte) Outcome {
	o := Outcome{Ended: d == Gemini} // its streams have no last event
	r := sse.NewReader(bytes.NewReader(body), sse.Options{})
	for {
		e, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) || len(bytes.TrimSpace(r.Rest())) > 0 {
				o.note("the stream ends inside an event: " + Clip(string(r.Rest()), 60))
			}
			return o
		}
		if e.HasData && len(e.Data) > 0 {
			o.event(d, string(e.Name), e.Data)
		}
	}
}

// note records the first violation.
func (o *Outcome) note(invalid string) {
	if o.Invalid == "" {
		o.Invalid = invalid
	}
}

// event adds one event.
func (o *Outcome) event(d Dialect, name string, data []byte) {
	if d == Chat && string(data) == "[DONE]" {
		o.Finished = true // some servers send no finish reason
		o.end()
		return
	}
	m := Parse(data)
	kind := m.Str("type")
	if m == nil {
		o.note("an event is not JSON: " + Clip(string(data), 60))
		return
	}
	if o.Error != "" && kind != "response.failed" { // it may follow the vendor's error event
		o.note("an event follows the error: " + Clip(string(data), 60))
	}
	if (d == Messages || d == Responses) && name != kind {
		o.note("the event is named " + name + " and has type " + kind)
	}
	switch {
	case d == Responses:
		o.responses(kind, m)
	case d == Messages:
		o.messages(kind, m)
	case m.Has("error"):
		o.fail(d, m.Obj("error"))
	default:
		for _, c := range m.List("choices") {
			o.Text += c.Obj("delta").Str("content")
			o.Finished = o.Finished || c.Has("finish_reason")
		}
		for _, c := range m.List("candidates") {
			o.Text += c.Obj("content").Text("parts")
			o.Finished = o.Finished || c.Has("finishReason")
		}
	}
}

// end records the last event. No last event may follow an error.
func (o *Outcome) end() {
	if o.Error != "" {
		o.Finished = true // makes it count as one that passes for complete
		o.note("the last event follows an error")
	}
	o.Ended = true
}

func (o *Outcome) fail(d Dialect, e Object) {
	read := d.readErrorObject(e)
	o.Error, o.Code = read.Error, read.Code
	o.note(read.Invalid)
}

func (o *Outcome) responses(kind string, m Object) {
	switch kind {
	case "response.output_text.delta":
		if _, ok := m["delta"].(string); !ok {
			o.note("a delta is not a string")
		}
		o.Text += m.Str("delta")
	case "response.completed":
		o.Finished = true
		if outputText(m.Obj("response")) != o.Text {
			o.note("response.completed holds another text than the deltas")
		}
		o.end()
	case "response.failed":
		e := m.Obj("response").Obj("error")
		if e.Str("message") == "" {
			o.note("response.failed has no error")
			return
		}
		o.Error, o.Code = e.Str("message"), e.Str("code")
	case "error":
		o.Error = cmp.Or(m.Obj("error").Str("message"), m.Str("message"))
		if o.Error == "" {
			o.note("the error has no message")
		}
	}
}

func (o *Outcome) messages(kind string, m Object) {
	switch kind {
	case "content_block_delta", "message_delta":
		if m.Obj("delta") == nil {
			o.note("a delta is not an object")
		}
		o.Text += m.Obj("delta").Str("text")
		o.Finished = o.Finished || m.Obj("delta").Has("stop_reason")
	case "message_stop":
		o.end()
	case "error":
		o.fail(Messages, m.Obj("error"))
	}
}
