package protocoltest

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// CheckConverse checks INV-2, INV-3, INV-5 and INV-12 for a stream of ConverseStream, in the
// form of server-sent events. Unions have one member, as the vendor's SDKs demand.
func CheckConverse(stream []byte) (Ending, error) {
	c := converseCheck{ending: Open, open: -1, args: map[int]string{}}
	for i, e := range eventsOf(stream, &c.faults) {
		c.at = i
		c.event(e)
	}
	if c.ending == Open && c.stopped {
		c.add("INV-2", "no metadata after messageStop")
	}
	return c.ending, c.err()
}

type converseCheck struct {
	faults
	ending  Ending
	started bool
	stopped bool
	open    int // the position of the open block; -1: none
	next    int
	calls   int
	args    map[int]string
}

// union returns the only member of an object.
func (c *converseCheck) union(raw jsontext.Value) (name string, value jsontext.Value) {
	var o map[string]jsontext.Value
	if !into(&c.faults, raw, &o) {
		return "", nil
	}
	if len(o) != 1 {
		c.add("JSON", "a union with %d members: %s", len(o), raw)
		return "", nil
	}
	name = slices.Collect(maps.Keys(o))[0]
	return name, o[name]
}

func (c *converseCheck) event(e event) {
	if c.ending != Open {
		c.add("INV-3", "output after the end: %s", e.data)
		return
	}
	if e.name != "" {
		c.add("INV-11", "an event name: %q", e.name)
	}
	name, value := c.union(e.data)
	var w struct {
		Role  string         `json:"role"`
		Index *int           `json:"contentBlockIndex"`
		Start jsontext.Value `json:"start"`
		Delta jsontext.Value `json:"delta"`
		Stop  string         `json:"stopReason"`
		Usage struct {
			Input  *int64 `json:"inputTokens"`
			Output *int64 `json:"outputTokens"`
			Total  *int64 `json:"totalTokens"`
		} `json:"usage"`
		Metrics struct {
			Latency *int64 `json:"latencyMs"`
		} `json:"metrics"`
	}
	if name == "" || !into(&c.faults, value, &w) {
		return
	}
	switch {
	case strings.HasSuffix(name, "Exception"):
		c.ending = Failed
		return
	case name == "messageStart":
		if c.started || w.Role != "assistant" {
			c.add("INV-2", "a second start, or not of the assistant: %s", e.data)
		}
		c.started = true
		return
	case !c.started:
		c.add("INV-2", "%s before messageStart", name)
	}
	switch name {
	case "contentBlockStart", "contentBlockDelta", "contentBlockStop":
		if w.Index == nil || c.stopped {
			c.add("INV-2", "a block without its position, or after messageStop: %s", e.data)
			return
		}
		c.block(name, *w.Index, w.Start, w.Delta)
	case "messageStop":
		if c.stopped || c.open >= 0 {
			c.add("INV-2", "messageStop twice, or while block %d is open", c.open)
		}
		if c.stopped = true; (w.Stop == "tool_use") != (c.calls > 0) && (w.Stop == "tool_use" || w.Stop == "end_turn") {
			c.add("INV-12", "%s after %d calls", w.Stop, c.calls)
		}
	case "metadata":
		if !c.stopped || w.Usage.Input == nil || w.Usage.Output == nil || w.Usage.Total == nil || w.Metrics.Latency == nil {
			c.add("INV-2", "metadata before messageStop, or without the required counts: %s", e.data)
		}
		c.ending = Completed
	default:
		c.add("INV-2", "an unknown event: %s", e.data)
	}
}

// block checks one event of a block.
func (c *converseCheck) block(name string, at int, start, delta jsontext.Value) {
	if c.open < 0 && name != "contentBlockStop" {
		if at != c.next {
			c.add("INV-5", "block %d begins, want %d", at, c.next)
		}
		c.open, c.next = at, at+1
	}
	if at != c.open {
		c.add("INV-5", "%s of block %d while %d is open", name, at, c.open)
		return
	}
	switch name {
	case "contentBlockStart":
		kind, value := c.union(start)
		var use struct {
			ID   string `json:"toolUseId"`
			Name string `json:"name"`
			Type string `json:"type"`
		}
		if kind == "toolUse" && into(&c.faults, value, &use) {
			if use.ID == "" || use.Name == "" {
				c.add("INV-5", "a call without an id or a name: %s", value)
			}
			if use.Type == "" {
				c.calls++
			}
			c.args[at] = ""
		}
	case "contentBlockDelta":
		kind, value := c.union(delta)
		var w struct {
			Input string `json:"input"`
		}
		_, isCall := c.args[at]
		if (kind == "toolUse") != isCall {
			c.add("INV-5", "a delta of another kind than its block: %s", delta)
		} else if isCall && into(&c.faults, value, &w) {
			c.args[at] += w.Input
		}
		if kind == "reasoningContent" {
			c.union(value)
		}
	case "contentBlockStop":
		if args, ok := c.args[at]; ok && args != "" && !isObject(args) {
			c.add("INV-5", "the arguments are not an object: %s", args)
		}
		c.open = -1
	}
}
