package protocoltest

import "github.com/go-json-experiment/json/jsontext"

// CheckAnthropic checks INV-2, INV-3, INV-7, INV-8 and INV-12 for a stream of Anthropic
// messages.
func CheckAnthropic(stream []byte) (Ending, error) {
	c := anthropicCheck{ending: Open}
	for i, e := range eventsOf(stream, &c.faults) {
		c.at = i
		c.event(e)
	}
	return c.ending, c.err()
}

type anthropicCheck struct {
	faults
	ending  Ending
	started bool
	blocks  int
	open    bool
	kind    string // of the open block
	input   string // of the open tool call
	calls   int    // complete tool calls
	cut     bool   // the input of a tool call is not an object
	stop    string
}

type anthropicEvent struct {
	Type    string `json:"type"`
	Index   *int   `json:"index"`
	Message *struct {
		ID      string           `json:"id"`
		Role    string           `json:"role"`
		Content []jsontext.Value `json:"content"`
		Usage   jsontext.Value   `json:"usage"`
	} `json:"message"`
	Block *struct {
		Type  string         `json:"type"`
		ID    string         `json:"id"`
		Name  string         `json:"name"`
		Input jsontext.Value `json:"input"`
	} `json:"content_block"`
	Delta *struct {
		Type        string  `json:"type"`
		PartialJSON string  `json:"partial_json"`
		StopReason  *string `json:"stop_reason"`
	} `json:"delta"`
	Usage jsontext.Value `json:"usage"`
	Error *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

func (c *anthropicCheck) event(e event) {
	if c.ending != Open {
		c.add("INV-3", "output after the last event: %s", e.data)
		return
	}
	var a anthropicEvent
	if !into(&c.faults, e.data, &a) {
		return
	}
	if e.name != a.Type {
		c.add("INV-8", "the event is named %q and is a %q", e.name, a.Type)
	}
	if !c.started && a.Type != "message_start" && a.Type != "error" {
		c.add("INV-7", "%s before message_start", a.Type)
	}
	switch a.Type {
	case "message_start":
		c.start(&a)
	case "content_block_start":
		c.begin(&a)
	case "content_block_delta":
		c.delta(&a)
	case "content_block_stop":
		c.end(&a)
	case "message_delta":
		c.messageDelta(&a)
	case "message_stop":
		c.finish()
	case "error":
		c.ending = Failed
		if a.Error == nil || a.Error.Type == "" {
			c.add("INV-2", "an error without a type")
		}
	case "ping":
	default:
		c.add("INV-7", "an unknown event %q", a.Type)
	}
}

func (c *anthropicCheck) start(a *anthropicEvent) {
	if c.started {
		c.add("INV-7", "a second message_start")
	}
	c.started = true
	if a.Message == nil || a.Message.ID == "" || a.Message.Role != "assistant" || a.Message.Content == nil || !isSet(a.Message.Usage) {
		c.add("INV-7", "message_start lacks id, role, content or usage")
	}
}

func (c *anthropicCheck) begin(a *anthropicEvent) {
	switch {
	case a.Index == nil || a.Block == nil:
		c.add("INV-7", "content_block_start without index or block")
		return
	case c.open:
		c.add("INV-7", "block %d starts while another is open", *a.Index)
	case *a.Index != c.blocks:
		c.add("INV-7", "block %d starts, want block %d", *a.Index, c.blocks)
	case c.stop != "":
		c.add("INV-7", "block %d after message_delta", *a.Index)
	}
	c.open, c.kind, c.input = true, a.Block.Type, ""
	if a.Block.Type == "tool_use" && (a.Block.ID == "" || a.Block.Name == "" || string(a.Block.Input) != "{}") {
		c.add("INV-8", "tool_use starts without id or name, or with the input %s", a.Block.Input)
	}
}

func (c *anthropicCheck) delta(a *anthropicEvent) {
	if a.Index == nil || a.Delta == nil || !c.open || *a.Index != c.blocks {
		c.add("INV-7", "a delta for a block that is not open")
		return
	}
	fits := map[string]string{"text_delta": "text", "citations_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}
	switch kind, known := fits[a.Delta.Type]; {
	case a.Delta.Type == "input_json_delta":
		c.input += a.Delta.PartialJSON
		if c.kind != "tool_use" && c.kind != "server_tool_use" && c.kind != "mcp_tool_use" {
			c.add("INV-8", "%s in a block of %s", a.Delta.Type, c.kind)
		}
	case known && kind != c.kind:
		c.add("INV-7", "%s in a block of %s", a.Delta.Type, c.kind)
	}
}

func (c *anthropicCheck) end(a *anthropicEvent) {
	if a.Index == nil || !c.open || *a.Index != c.blocks {
		c.add("INV-7", "content_block_stop for a block that is not open")
		return
	}
	if c.kind == "tool_use" {
		c.calls++
		c.cut = c.cut || c.input != "" && !isObject(c.input)
	}
	c.open = false
	c.blocks++
}

func (c *anthropicCheck) messageDelta(a *anthropicEvent) {
	if c.open {
		c.add("INV-7", "message_delta while a block is open")
	}
	if a.Delta == nil || !isSet(a.Usage) {
		c.add("INV-7", "message_delta without delta or usage")
		return
	}
	if a.Delta.StopReason != nil {
		if c.stop != "" {
			c.add("INV-2", "a second stop reason")
		}
		c.stop = *a.Delta.StopReason
	}
}

func (c *anthropicCheck) finish() {
	c.ending = Completed
	switch {
	case c.open:
		c.add("INV-7", "message_stop while a block is open")
	case c.stop == "":
		c.add("INV-2", "message_stop without a stop reason")
	case c.stop == "end_turn" && c.calls > 0, c.stop == "tool_use" && c.calls == 0:
		c.add("INV-12", "the stop reason %q with %d calls", c.stop, c.calls)
	case c.cut && c.stop == "tool_use":
		c.add("INV-8", "the input of a tool call is not an object")
	}
}
