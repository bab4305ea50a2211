package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/sse"
)

// heard is what a client got.
type heard struct {
	status int
	header http.Header
	body   []byte
	broken error // the transfer broke off
}

// verdict is what an answer looks like to a client that knows its dialect.
type verdict struct {
	text     string // the words, in order
	finished bool   // it says that it is at its end, and how
	ended    bool   // the dialect's last event was there, where it has one
	fault    string // the message of the error that it ends in
	code     string // of that error
	odd      string // what no client of the dialect would understand
}

// whole reports whether a client takes the answer for a whole one.
func (v verdict) whole() bool { return v.finished && v.ended && v.fault == "" && v.odd == "" }

// looksWhole reports whether some client might. It is what a cut answer must never do.
func (v verdict) looksWhole() bool { return v.finished || v.fault == "" }

func (v verdict) String() string {
	return fmt.Sprintf("text %q, finished %t, ended %t, error %q (%s), odd %q", clip(v.text, 80), v.finished, v.ended, v.fault, v.code, v.odd)
}

// judge reads an answer in the client's dialect.
func judge(d dialect, h heard, stream bool) verdict {
	media, _, _ := strings.Cut(h.header.Get("Content-Type"), ";")
	switch {
	case h.status != http.StatusOK:
		return judgeFault(d, h.body)
	case stream && media != eventMedia:
		return verdict{odd: "a stream was asked for and the content type is " + media}
	case stream:
		return judgeStream(d, h.body)
	case media != jsonMedia:
		return verdict{odd: "the content type is " + media}
	}
	return judgeBody(d, h.body)
}

// fault is the error object of all dialects, with the members of each.
type fault struct {
	Message *string         `json:"message"`
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"`
	Status  string          `json:"status"`
}

// judgeFault reads the body of an answer whose status says that it is an error.
func judgeFault(d dialect, body []byte) verdict {
	var b struct {
		Type  string `json:"type"`
		Error *fault `json:"error"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return verdict{odd: "the error is not JSON: " + err.Error()}
	}
	if d == messages && b.Type != "error" {
		return verdict{odd: `the error has no "type":"error"`}
	}
	return b.Error.verdict(d)
}

// verdict checks that the error has what the dialect's clients read.
func (f *fault) verdict(d dialect) verdict {
	switch {
	case f == nil || f.Message == nil || *f.Message == "":
		return verdict{odd: "the error has no message"}
	case d == gemini && (f.Status == "" || !isNumber(f.Code)):
		return verdict{odd: "the error has no code and status of Gemini's kind"}
	case d != gemini && f.Type == "":
		return verdict{odd: "the error has no type"}
	}
	return verdict{fault: *f.Message, code: strings.Trim(string(f.Code), `"`)}
}

func isNumber(b []byte) bool { return len(b) > 0 && b[0] >= '0' && b[0] <= '9' }

// chunk is one event or body of any dialect, with all members that matter here.
type chunk struct {
	Type string `json:"type"`

	Choices []struct {
		Delta        struct{ Content string } `json:"delta"`
		Message      struct{ Content string } `json:"message"`
		FinishReason *string                  `json:"finish_reason"`
	} `json:"choices"`

	Candidates []struct {
		Content      content `json:"content"`
		FinishReason string  `json:"finishReason"`
	} `json:"candidates"`

	Content    []part          `json:"content"`
	StopReason *string         `json:"stop_reason"`
	Delta      json.RawMessage `json:"delta"`

	Status   string `json:"status"`
	Output   []item `json:"output"`
	Response *struct {
		Status string `json:"status"`
		Output []item `json:"output"`
		Error  *fault `json:"error"`
	} `json:"response"`

	Error   *fault          `json:"error"`
	Message json.RawMessage `json:"message"`
	Code    json.RawMessage `json:"code"`
}

type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type content struct {
	Parts []part `json:"parts"`
}

type item struct {
	Content []part `json:"content"`
}

func textIn(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func textOfItems(items []item) string {
	var b strings.Builder
	for _, i := range items {
		b.WriteString(textIn(i.Content))
	}
	return b.String()
}

// judgeBody reads an answer that is one body.
func judgeBody(d dialect, body []byte) verdict {
	var c chunk
	if err := json.Unmarshal(body, &c); err != nil {
		return verdict{odd: "the body is not JSON: " + err.Error()}
	}
	v := verdict{ended: true}
	if c.Error != nil {
		v = c.Error.verdict(d)
		v.odd = "an error with status 200"
		return v
	}
	switch {
	case d == chat && len(c.Choices) == 1:
		v.text, v.finished = c.Choices[0].Message.Content, c.Choices[0].FinishReason != nil
	case d == responses:
		v.text, v.finished = textOfItems(c.Output), c.Status == "completed"
	case d == messages:
		v.text, v.finished = textIn(c.Content), c.StopReason != nil
	case d == gemini && len(c.Candidates) == 1:
		v.text, v.finished = textIn(c.Candidates[0].Content.Parts), c.Candidates[0].FinishReason != ""
	default:
		v.odd = "the body holds no answer"
	}
	return v
}

// judgeStream reads an answer that is events.
func judgeStream(d dialect, body []byte) verdict {
	v := verdict{ended: d == gemini} // its stream has no last event
	r := sse.NewReader(bytes.NewReader(body), sse.Options{})
	for {
		e, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) || len(bytes.TrimSpace(r.Rest())) > 0 {
				v.note("the stream ends within an event: " + clip(string(r.Rest()), 60))
			}
			return v
		}
		if e.HasData && len(e.Data) > 0 {
			v.event(d, string(e.Name), e.Data)
		}
	}
}

// note keeps the first oddity.
func (v *verdict) note(odd string) {
	if v.odd == "" {
		v.odd = odd
	}
}

// event adds one event.
func (v *verdict) event(d dialect, name string, data []byte) {
	if d == chat && string(data) == "[DONE]" {
		v.finished = true // some servers send no other proof of the end
		v.over(true)
		return
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		v.note("an event is not JSON: " + clip(string(data), 60))
		return
	}
	if v.fault != "" && c.Type != "response.failed" { // agents wait for it, and it may follow the vendor's own event
		v.note("something follows the error: " + clip(string(data), 60))
	}
	if (d == messages || d == responses) && name != c.Type {
		v.note("the event is named " + name + " and is of type " + c.Type)
	}
	switch d {
	case chat:
		v.chat(c)
	case responses:
		v.responses(c)
	case messages:
		v.messages(c)
	default:
		v.gemini(c)
	}
}

// over notes the last event. After an error there is none.
func (v *verdict) over(last bool) {
	if v.fault != "" {
		v.finished, v.ended = true, true // so that it counts as one that looks whole
		v.note("the end follows the error")
	}
	v.ended = v.ended || last
}

func (v *verdict) fail(f *fault, d dialect) {
	w := f.verdict(d)
	v.fault, v.code = w.fault, w.code
	v.note(w.odd)
}

func (v *verdict) chat(c chunk) {
	if c.Error != nil {
		v.fail(c.Error, chat)
		return
	}
	for _, choice := range c.Choices {
		v.text += choice.Delta.Content
		v.finished = v.finished || choice.FinishReason != nil
	}
}

func (v *verdict) responses(c chunk) {
	switch c.Type {
	case "response.output_text.delta":
		var delta string
		if err := json.Unmarshal(c.Delta, &delta); err != nil {
			v.note("a delta is no string")
		}
		v.text += delta
	case "response.completed":
		v.finished = true
		if c.Response == nil || textOfItems(c.Response.Output) != v.text {
			v.note("response.completed holds another text than the deltas")
		}
		v.over(true)
	case "response.failed":
		switch {
		case c.Response != nil && c.Response.Error != nil && c.Response.Error.Message != nil:
			v.fault, v.code = *c.Response.Error.Message, string(c.Response.Error.Code)
		default:
			v.note("response.failed has no error")
		}
	case "error":
		v.fault = strings.Trim(string(c.Message), `"`)
		if c.Error != nil && c.Error.Message != nil {
			v.fault = *c.Error.Message
		}
		if v.fault == "" {
			v.note("the error has no message")
		}
	}
}

func (v *verdict) messages(c chunk) {
	switch c.Type {
	case "content_block_delta":
		var delta part
		if err := json.Unmarshal(c.Delta, &delta); err != nil {
			v.note("a delta is no object")
		}
		v.text += delta.Text
	case "message_delta":
		var delta struct {
			StopReason *string `json:"stop_reason"`
		}
		if err := json.Unmarshal(c.Delta, &delta); err != nil {
			v.note("a delta is no object")
		}
		v.finished = v.finished || delta.StopReason != nil
	case "message_stop":
		v.over(true)
	case "error":
		v.fail(c.Error, messages)
	}
}

func (v *verdict) gemini(c chunk) {
	if c.Error != nil {
		v.fail(c.Error, gemini)
		return
	}
	for _, candidate := range c.Candidates {
		v.text += textIn(candidate.Content.Parts)
		v.finished = v.finished || candidate.FinishReason != ""
	}
}

// clip bounds what is printed.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
