package converse

import (
	"bytes"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Tap reads usage, stop reason and errors from a response that is relayed. Responses have
// neither an id nor a model.
type Tap struct {
	tally   tally
	summary protocol.Summary
}

// Finished reports whether every choice has its finish reason.
func (t *Tap) Finished() bool { return t.summary.Complete }

// Summary returns what the tap has read so far.
func (t *Tap) Summary() protocol.Summary {
	t.summary.Usage, t.summary.Tier = t.tally.usage, t.tally.tier
	return t.summary
}

// blockEvent begins an event that holds nothing to measure.
var blockEvent = []byte(`{"contentBlock`)

// Event reads one event.
func (t *Tap) Event(data []byte) protocol.Mark {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return protocol.Keepalive
	case bytes.HasPrefix(data, blockEvent):
		t.summary.Content = true
		return protocol.Content
	}
	var e StreamEvent
	if err := wire.UnmarshalLenient(data, &e); err != nil {
		return t.fail(codec.InvalidResponse("the upstream sent an event that is not JSON", err))
	}
	if err := exception(&e, data); err != nil {
		return t.fail(err)
	}
	if w := e.MessageStop.Ptr(); w != nil {
		t.summary.Finish, t.summary.Complete = w.StopReason.Value(), true
	}
	if w := e.Metadata.Ptr(); w != nil {
		if t.tally.add(w); t.summary.Complete {
			return protocol.Done
		}
	}
	return protocol.Content
}

func (t *Tap) fail(e *llm.Error) protocol.Mark {
	t.summary.Err, t.summary.Complete = e, false
	return protocol.Failed
}

// Body reads a non-streaming response, or a token count.
func (t *Tap) Body(body []byte) *llm.Error {
	var w Response
	if wire.UnmarshalLenient(body, &w) != nil {
		t.fail(codec.InvalidResponse("the upstream's response is not a complete JSON object", nil))
		return t.summary.Err
	}
	m, ok := w.Output.Value().Message.Get()
	if !ok {
		if _, err := decodeCount(body); err == nil {
			t.summary.Complete = true
			return nil
		}
		err := decodeErrorBody(0, "", body)
		if !err.Relayed {
			err = codec.InvalidResponse("the upstream's response has no message", nil)
		}
		t.fail(err)
		return err
	}
	t.tally.add(&w)
	t.summary.Finish, t.summary.Complete = w.StopReason.Value(), true
	for _, block := range m.Content.Value().All() {
		t.summary.Content = t.summary.Content || codec.HasContent(*block)
	}
	return nil
}
