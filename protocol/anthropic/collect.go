package anthropic

import (
	"bytes"
	"errors"
	"io"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// NewCollector returns a collector that makes one message of a stream.
func (Codec) NewCollector(limit int64) protocol.Collector {
	return &collector{answer: llm.Collector{Limit: int(limit)}}
}

type collector struct {
	decoder streamDecoder
	answer  llm.Collector
	events  []llm.Event
}

// Add takes the data of one event.
func (c *collector) Add(data []byte) error { return c.take(c.decoder.Decode(nil, data, c.events[:0])) }

func (c *collector) take(events []llm.Event) error {
	c.events = events
	for _, e := range events {
		if err := c.answer.Add(e); err != nil {
			return err
		}
	}
	return nil
}

// Done says that [DONE] has come, which means nothing in this protocol.
func (c *collector) Done() {}

// Body is the whole answer.
func (c *collector) Body() ([]byte, error) {
	if err := c.take(c.decoder.Finish(c.events[:0])); err != nil {
		return nil, err
	}
	resp, err := c.answer.Response()
	if err != nil {
		return nil, err
	}
	return Codec{}.EncodeResponse(resp, nil, &llm.Report{}), nil
}

// Explode writes a whole message as the data of the events that a stream of it
// would have had. The name of each event is its type.
func (c Codec) Explode(body []byte) ([][]byte, error) {
	resp, bad := c.DecodeResponse(body)
	if bad != nil {
		return nil, bad
	}
	var stream []byte
	encoder := c.NewStreamEncoder(nil)
	for _, e := range llm.Explode(resp) {
		if start, ok := e.(llm.Start); ok && resp.Usage != nil { // some clients read the input from here only, USE-06
			start.Usage = &llm.Usage{Input: resp.Usage.Input, CacheRead: resp.Usage.CacheRead, CacheWrite: resp.Usage.CacheWrite}
			e = start
		}
		stream = encoder.Encode(e, stream)
	}
	var out [][]byte
	r := sse.NewReader(bytes.NewReader(stream), sse.Options{MaxEvent: len(stream) + 1})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, bytes.Clone(e.Data))
	}
}
