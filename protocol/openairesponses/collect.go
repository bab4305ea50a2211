package openairesponses

import (
	"bytes"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// collector makes one answer of a stream: its last snapshot, as it came. Where a
// server leaves the output out of that, the items' own ends have it (RSP-05).
type collector struct {
	limit int
	size  int
	tap   Tap
	items map[int64]jsontext.Value
	last  jsontext.Value
	err   error
}

// Add takes the data of one event. An error inside the stream is an *llm.Error.
func (c *collector) Add(data []byte) error {
	if c.err == nil {
		c.err = c.add(data)
	}
	return c.err
}

func (c *collector) add(data []byte) error {
	mark := c.tap.Event(data)
	if mark == protocol.Failed {
		return c.tap.summary.Err
	}
	if c.last != nil || mark == protocol.Keepalive || isDelta(data) {
		return nil
	}
	if mark != protocol.Done && string(eventType(nil, data)) != "response.output_item.done" {
		return nil
	}
	var e struct {
		Output   int64          `json:"output_index"`
		Item     jsontext.Value `json:"item"`
		Response jsontext.Value `json:"response"`
	}
	if err := json.Unmarshal(data, &e, lenient); err != nil {
		return unreadable(err)
	}
	if c.size += len(data); c.limit > 0 && c.size > c.limit {
		return llm.ErrTooLarge
	}
	if mark == protocol.Done {
		c.last = e.Response
		return nil
	}
	if c.items == nil {
		c.items = map[int64]jsontext.Value{}
	}
	c.items[e.Output] = e.Item
	return nil
}

// Done is not called: the last event is one that Add sees.
func (c *collector) Done() {}

// Body is the whole answer.
func (c *collector) Body() ([]byte, error) {
	switch {
	case c.err != nil:
		return nil, c.err
	case c.last == nil:
		return nil, llm.ErrIncomplete
	}
	response := membersOf(llm.Raw(c.last))
	output, _ := response.Get("output")
	if output.Kind() == '[' && (len(c.items) == 0 || len(bytes.TrimSpace(output[1:len(output)-1])) > 0) {
		return c.last, nil
	}
	var items list
	for _, index := range slices.Sorted(maps.Keys(c.items)) {
		items.add(llm.Raw(c.items[index]))
	}
	return json.Marshal(response.With("output", jsontext.Value(items.end())))
}

// Explode writes a whole answer as the data of the events that a stream of it
// would have had.
func (c Codec) Explode(body []byte) ([][]byte, error) {
	r, err := c.DecodeResponse(body)
	if err != nil {
		return nil, err
	}
	s := newStreamEncoder(nil)
	var text []byte
	for _, e := range llm.Explode(r) {
		text = s.Encode(e, text)
	}
	var events [][]byte
	for event := range bytes.SplitSeq(bytes.TrimSpace(text), []byte("\n\n")) {
		_, data, _ := bytes.Cut(event, []byte("data: "))
		events = append(events, data)
	}
	return events, nil
}
