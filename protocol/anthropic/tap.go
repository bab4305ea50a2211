package anthropic

import (
	"bytes"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Tap reads what an exchange is measured by from an answer that passes.
type Tap struct {
	event   streamEvent
	tally   tally
	summary protocol.Summary
}

// Summary is what has been seen so far.
func (t *Tap) Summary() protocol.Summary {
	t.summary.Usage = t.tally.neutral()
	return t.summary
}

// blockEvent begins the type of every event that holds nothing to measure. Inside
// a JSON string a quote is escaped, so text cannot look like it.
var blockEvent = []byte(`"content_block_`)

// Event sees the data of one event.
func (t *Tap) Event(data []byte) protocol.Mark {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0, string(data) == "[DONE]":
		return protocol.Keepalive
	case bytes.Contains(data, blockEvent):
		return protocol.Content
	}
	if err := json.Unmarshal(data, &t.event, lenient); err != nil {
		return t.fail(badAnswer("the upstream sent an event that is not JSON", err))
	}
	e := &t.event
	switch {
	case isError(e.typ, e.err):
		return t.fail(decodeErrorBody(0, data))
	case e.typ == "message_stop":
		t.summary.Complete = true
		return protocol.Done
	case e.typ == "ping":
		return protocol.Keepalive
	case e.typ == "message_start":
		t.read(e.message)
	case e.typ == "message_delta":
		t.read(e.delta)
		var u Usage
		if len(e.usage) > 0 && usageShape.UnmarshalLenient(e.usage, &u) == nil {
			t.tally.add(&u)
		}
	}
	return protocol.Content
}

// read takes what an answer, or a part of one, says of itself.
func (t *Tap) read(raw []byte) *Response {
	var w Response
	if len(raw) == 0 || responseShape.UnmarshalLenient(raw, &w) != nil {
		return nil
	}
	if s := w.ID.Value(); s != "" {
		t.summary.ID = s
	}
	if s := w.Model.Value(); s != "" {
		t.summary.Model = s
	}
	if s := w.StopReason.Value(); s != "" {
		t.summary.Finish = s
	}
	if u, ok := w.Usage.Get(); ok {
		t.tally.add(&u)
	}
	return &w
}

func (t *Tap) fail(e *llm.Error) protocol.Mark {
	t.summary.Err, t.summary.Complete = e, false
	return protocol.Failed
}

// Body sees a whole answer.
func (t *Tap) Body(body []byte) *llm.Error {
	w := t.read(body)
	switch {
	case w == nil:
		t.fail(badAnswer("the upstream's answer is not a complete JSON object", nil))
	case isError(w.Type.Value(), w.Error):
		t.fail(decodeErrorBody(0, body))
	default:
		t.summary.Complete = true
	}
	return t.summary.Err
}
