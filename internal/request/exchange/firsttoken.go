package exchange

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/pair"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// NewFirstToken returns a detector of the first token of a target's stream. early becomes the
// usage that the upstream reports before the first token.
func NewFirstToken(c *Call, t *Target, early **llm.Usage) upstream.FirstToken {
	target := t.Dialect.Codec
	if c.Operation == codec.Generate {
		return &decodedToken{target: t, decoder: target.NewStreamDecoder(), early: early}
	}
	return &tappedToken{target: t, tap: target.NewTap(c.Body.Choices)}
}

// decodedToken detects the first token of a conversation's stream.
type decodedToken struct {
	target  *Target
	decoder protocol.StreamDecoder
	events  []llm.Event
	early   **llm.Usage
}

func (f *decodedToken) Event(e sse.Event) (bool, *llm.Error) {
	f.events = f.decoder.Decode(e.Name, pair.EventData(e), f.events[:0])
	return f.find()
}

func (f *decodedToken) End() *llm.Error {
	f.events = f.decoder.Finish(f.events[:0])
	_, err := f.find()
	return err
}

func (f *decodedToken) find() (bool, *llm.Error) {
	for _, e := range f.events {
		switch e := e.(type) {
		case llm.Start:
			*f.early = e.Usage
		case llm.Delta, llm.ChoiceEnd, llm.End:
			return true, nil
		case llm.Failure:
			return true, f.target.clientError(e.Err)
		}
	}
	return false, nil
}

// tappedToken detects the first token of any other stream, such as a text completion.
type tappedToken struct {
	target *Target
	tap    protocol.Tap
}

func (f *tappedToken) Event(e sse.Event) (bool, *llm.Error) {
	if !e.HasData {
		return false, nil
	}
	switch f.tap.Event(e.Data) {
	case protocol.Content, protocol.Done:
		return true, nil
	case protocol.Failed:
		return true, f.target.clientError(f.tap.Summary().Err)
	case protocol.Keepalive, protocol.UsageOnly:
	}
	return false, nil
}

func (f *tappedToken) End() *llm.Error { return upstream.Truncated(nil) }

// clientError returns a stream's error as the client may see it.
func (t *Target) clientError(err *llm.Error) *llm.Error {
	if err.Kind == llm.UpstreamAuth {
		return RejectedCredential(t.Provider)
	}
	return RedactError(err, t.Provider)
}
