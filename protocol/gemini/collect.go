package gemini

import (
	"bytes"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// NewCollector returns a collector that holds at most limit bytes.
func (Codec) NewCollector(limit int64) protocol.Collector {
	return &collector{collected: llm.Collector{Limit: int(limit)}}
}

// collector makes one answer of a stream.
type collector struct {
	decoder   streamDecoder
	collected llm.Collector
	events    []llm.Event
}

// Add takes the data of one event.
func (c *collector) Add(data []byte) error {
	return c.take(c.decoder.Decode(nil, data, c.events[:0]))
}

// Done does nothing: a stream has no last event of its own.
func (c *collector) Done() {}

// Body is the whole answer.
func (c *collector) Body() ([]byte, error) {
	if err := c.take(c.decoder.Finish(c.events[:0])); err != nil {
		return nil, err
	}
	r, err := c.collected.Response()
	if err != nil {
		return nil, err
	}
	return Codec{}.EncodeResponse(r, nil, &llm.Report{}), nil
}

func (c *collector) take(events []llm.Event) error {
	for _, e := range events {
		if f, failed := e.(llm.Failure); failed {
			return f.Err
		}
		if err := c.collected.Add(e); err != nil {
			return err
		}
	}
	c.events = events
	return nil
}

// Explode writes a whole answer as the data of the events that a stream of it
// would have had.
func (c Codec) Explode(body []byte) ([][]byte, error) {
	r, err := c.DecodeResponse(body)
	if err != nil {
		return nil, err
	}
	enc := StreamEncoder{form: asLines}
	var out []byte
	for _, e := range llm.Explode(r) {
		out = enc.Encode(e, out)
	}
	return bytes.Split(bytes.TrimSuffix(out, []byte("\n")), []byte("\n")), nil
}
