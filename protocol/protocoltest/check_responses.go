package protocoltest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// CheckResponses checks INV-2, INV-3, INV-8, INV-9 and INV-10 for a stream of the
// Responses API. For INV-8, the name of an event must be equal to its type.
func CheckResponses(stream []byte) (Ending, error) {
	c := responsesCheck{ending: Open, items: map[int]*responsesItem{}, parts: map[string]bool{}}
	for i, e := range eventsOf(stream, &c.faults) {
		c.at = i
		c.event(e)
	}
	return c.ending, c.err()
}

type responsesCheck struct {
	faults
	ending Ending
	id     string
	next   int
	items  map[int]*responsesItem // by output index
	parts  map[string]bool        // whether a part is open, by item, kind and index
	errors bool                   // an error event was sent; response.failed follows it
}

type responsesItem struct {
	id    string
	typ   string
	done  jsontext.Value
	texts map[string]string // text of the deltas, by kind and index
}

type responsesEvent struct {
	Type     string `json:"type"`
	Sequence *int   `json:"sequence_number"`
	Response *struct {
		ID     string            `json:"id"`
		Status string            `json:"status"`
		Output *[]jsontext.Value `json:"output"`
	} `json:"response"`
	OutputIndex  *int           `json:"output_index"`
	ContentIndex *int           `json:"content_index"`
	SummaryIndex *int           `json:"summary_index"`
	ItemID       string         `json:"item_id"`
	Item         jsontext.Value `json:"item"`
	Delta        jsontext.Value `json:"delta"`
	Text         *string        `json:"text"`
	Refusal      *string        `json:"refusal"`
	Arguments    *string        `json:"arguments"`
	Input        *string        `json:"input"`
}

func (c *responsesCheck) event(e event) {
	if c.ending != Open {
		c.add("INV-3", "output after the last event: %s", e.data)
		return
	}
	var r responsesEvent
	if !into(&c.faults, e.data, &r) {
		return
	}
	if e.name != r.Type {
		c.add("INV-8", "the event is named %q and is a %q", e.name, r.Type)
	}
	if r.Sequence == nil || *r.Sequence != c.next {
		c.add("INV-9", "the sequence number of %s is not %d", r.Type, c.next)
	}
	c.next++
	if r.Response != nil {
		c.response(&r)
	}
	switch r.Type {
	case "response.created", "response.in_progress", "response.queued":
	case "response.completed", "response.incomplete":
		c.terminal(&r)
		c.ending = Completed
	case "response.failed":
		c.ending = Failed
	case "error":
		c.errors = true
		if c.id == "" { // there was no response.created
			c.ending = Failed
		}
	default:
		c.inner(&r)
	}
}

func (c *responsesCheck) response(r *responsesEvent) {
	if c.id == "" {
		c.id = r.Response.ID
	}
	if r.Response.ID == "" || r.Response.ID != c.id {
		c.add("INV-9", "the response id changes from %q to %q", c.id, r.Response.ID)
	}
}

func (c *responsesCheck) inner(r *responsesEvent) {
	if c.id == "" {
		c.add("INV-9", "%s before response.created", r.Type)
	}
	if r.OutputIndex == nil {
		c.add("RSP-06", "%s without output_index", r.Type)
		return
	}
	index := *r.OutputIndex
	item := c.items[index]
	switch r.Type {
	case "response.output_item.added":
		c.added(index, r)
		return
	case "response.output_item.done":
		c.done(index, r)
		return
	}
	switch {
	case item == nil || item.done != nil:
		c.add("INV-9", "%s for item %d, which is not open", r.Type, index)
	case r.ItemID != item.id:
		c.add("INV-9", "%s names the item %q, which is %q", r.Type, r.ItemID, item.id)
	default:
		c.part(item, r)
	}
}

func (c *responsesCheck) added(index int, r *responsesEvent) {
	var head struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	if !into(&c.faults, r.Item, &head) {
		return
	}
	if index != len(c.items) || head.ID == "" || head.Type == "" {
		c.add("INV-9", "item %d (%q, %q), want item %d", index, head.ID, head.Type, len(c.items))
	}
	c.items[index] = &responsesItem{id: head.ID, typ: head.Type, texts: map[string]string{}}
}

func (c *responsesCheck) done(index int, r *responsesEvent) {
	item := c.items[index]
	if item == nil || item.done != nil {
		c.add("INV-9", "output_item.done for item %d, which is not open", index)
		return
	}
	item.done = r.Item
	for _, key := range slices.Sorted(maps.Keys(c.parts)) {
		if strings.HasPrefix(key, item.id+" ") && c.parts[key] {
			c.add("INV-9", "item %d is done while %q is open", index, key)
		}
	}
}

// part checks the added, delta and done events of a part, or of an item's own text.
func (c *responsesCheck) part(item *responsesItem, r *responsesEvent) {
	kind, step := r.Type[:strings.LastIndex(r.Type, ".")], r.Type[strings.LastIndex(r.Type, ".")+1:]
	key := item.id + " " + kind + position(r)
	switch step {
	case "added":
		if c.parts[key] {
			c.add("INV-9", "%s is added twice", key)
		}
		c.parts[key] = !strings.HasSuffix(kind, "annotation")
	case "delta":
		var s string
		if r.Delta.Kind() == '"' && into(&c.faults, r.Delta, &s) {
			item.texts[kind+position(r)] += s
		}
	case "done":
		if _, opens := c.parts[key]; opens && !c.parts[key] {
			c.add("INV-9", "%s is done twice", key)
		}
		delete(c.parts, key)
		for _, whole := range []*string{r.Text, r.Refusal, r.Arguments, r.Input} {
			if whole != nil && *whole != item.texts[kind+position(r)] {
				c.add("INV-1", "%s: the deltas are %q, the final text is %q", r.Type, item.texts[kind+position(r)], *whole)
			}
		}
	}
}

func position(r *responsesEvent) string {
	switch {
	case r.ContentIndex != nil:
		return fmt.Sprintf("[%d]", *r.ContentIndex)
	case r.SummaryIndex != nil:
		return fmt.Sprintf("[%d]", *r.SummaryIndex)
	}
	return ""
}

func (c *responsesCheck) terminal(r *responsesEvent) {
	if c.errors {
		c.add("INV-2", "%s after an error", r.Type)
	}
	if r.Response == nil || r.Response.Output == nil {
		c.add("INV-10", "%s without output", r.Type)
		return
	}
	if want := strings.TrimPrefix(r.Type, "response."); r.Response.Status != want {
		c.add("INV-10", "the status %q in %s", r.Response.Status, r.Type)
	}
	output := *r.Response.Output
	if len(output) != len(c.items) {
		c.add("INV-10", "%d items were streamed and %d are in the output", len(c.items), len(output))
		return
	}
	for i, raw := range output {
		item := c.items[i]
		if item == nil || item.done == nil {
			c.add("INV-9", "item %d has no output_item.done", i)
			continue
		}
		if diff := DiffJSON(item.done, raw); len(diff) > 0 {
			c.add("INV-10", "item %d differs from what was streamed: %s", i, diff[0])
		}
	}
}
