package protocoltest

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// CheckChat checks INV-2 to INV-6 and INV-12 for a stream of chat completions.
func CheckChat(stream []byte) (Ending, error) {
	c := chatCheck{choices: map[int]*chatChoice{}, ending: Open}
	for i, e := range eventsOf(stream, &c.faults) {
		c.at = i
		c.event(e)
	}
	if c.ending == Completed {
		c.finished()
	}
	return c.ending, c.err()
}

type chatCheck struct {
	faults
	identity string
	choices  map[int]*chatChoice
	usage    int
	ending   Ending
}

type chatChoice struct {
	calls  int
	ids    map[string]bool
	finish string
	legacy bool
	lists  map[string]bool // members of deltas that were lists
}

type chatChunk struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Created jsontext.Value `json:"created"`
	Model   string         `json:"model"`
	Choices *[]struct {
		Index        *int           `json:"index"`
		Delta        jsontext.Value `json:"delta"`
		FinishReason *string        `json:"finish_reason"`
		Logprobs     jsontext.Value `json:"logprobs"`
	} `json:"choices"`
	Usage jsontext.Value `json:"usage"`
	Error jsontext.Value `json:"error"`
}

type chatDelta struct {
	Role         *string        `json:"role"`
	Content      jsontext.Value `json:"content"` // text, or with some servers a list of parts
	Refusal      *string        `json:"refusal"`
	ToolCalls    []chatCall     `json:"tool_calls"`
	FunctionCall jsontext.Value `json:"function_call"`
}

type chatCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function *struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
	Custom *struct {
		Name  string  `json:"name"`
		Input *string `json:"input"`
	} `json:"custom"`
}

func (c *chatCheck) event(e event) {
	if c.ending != Open {
		c.add("INV-3", "output after the last event: %s", e.data)
		return
	}
	if e.name != "" {
		c.add("INV-2", "an event name %q", e.name)
	}
	if string(e.data) == "[DONE]" {
		c.ending = Completed
		return
	}
	var chunk chatChunk
	if !into(&c.faults, e.data, &chunk) {
		return
	}
	if isSet(chunk.Error) {
		c.ending = Failed
		return
	}
	c.chunk(&chunk)
}

func (c *chatCheck) chunk(chunk *chatChunk) {
	identity := chunk.ID + " " + string(chunk.Created) + " " + chunk.Model
	if c.identity == "" {
		c.identity = identity
	}
	if identity != c.identity || chunk.Object != "chat.completion.chunk" {
		c.add("INV-4", "the chunk is of %q (%s), the stream of %q", identity, chunk.Object, c.identity)
	}
	if chunk.Choices == nil {
		c.add("INV-4", "no choices member")
		return
	}
	if isSet(chunk.Usage) {
		c.usage++
		if c.usage > 1 || len(*chunk.Choices) > 0 {
			c.add("USE-07", "usage comes once, in a chunk without choices")
		}
	} else if len(*chunk.Choices) == 0 {
		c.add("USE-07", "an empty chunk")
	}
	for _, choice := range *chunk.Choices {
		var delta chatDelta
		if choice.Index == nil || !isSet(choice.Delta) || !into(&c.faults, choice.Delta, &delta) {
			c.add("INV-4", "a choice without index or delta")
			continue
		}
		c.choice(*choice.Index, &delta, choice.FinishReason)
		c.lists(c.choices[*choice.Index], choice.Delta)
	}
}

func (c *chatCheck) choice(index int, d *chatDelta, finish *string) {
	have := c.choices[index]
	if first := have == nil; first {
		have = &chatChoice{ids: map[string]bool{}}
		c.choices[index] = have
		if d.Role == nil || *d.Role != "assistant" {
			c.add("INV-4", "the first chunk of choice %d has no role", index)
		}
	} else if d.Role != nil {
		c.add("INV-4", "the role of choice %d is repeated", index)
	}
	if have.finish != "" {
		c.add("INV-3", "choice %d continues after its finish reason", index)
	}
	for i := range d.ToolCalls {
		c.call(have, &d.ToolCalls[i])
	}
	have.legacy = have.legacy || isSet(d.FunctionCall)
	if finish != nil {
		have.finish = *finish
		if *finish == "" {
			c.add("INV-4", "an empty finish reason")
		}
	}
}

// lists checks the lists of a delta: SDKs join the entries of a list in several chunks by their index.
func (c *chatCheck) lists(have *chatChoice, delta jsontext.Value) {
	var members map[string]jsontext.Value
	if !into(&c.faults, delta, &members) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var entries []struct {
			Index *int `json:"index"`
		}
		if members[name].Kind() != '[' || !into(&c.faults, members[name], &entries) {
			continue
		}
		for _, e := range entries {
			if have.lists[name] && e.Index == nil {
				c.add("INV-4", "an entry of %s in a later chunk has no index", name)
			}
		}
		if have.lists == nil {
			have.lists = map[string]bool{}
		}
		have.lists[name] = true
	}
}

func (c *chatCheck) call(have *chatChoice, call *chatCall) {
	if call.Index == nil {
		c.add("INV-5", "a call without index")
		return
	}
	name := ""
	switch {
	case call.Function != nil:
		name = call.Function.Name
	case call.Custom != nil:
		name = call.Custom.Name
	}
	switch {
	case *call.Index == have.calls:
		have.calls++
		if call.ID == "" || call.Type != "function" && call.Type != "custom" || name == "" {
			c.add("INV-5", "call %d starts without id, type or name", *call.Index)
		}
		if have.ids[call.ID] {
			c.add("INV-5", "the id %q is used twice", call.ID)
		}
		have.ids[call.ID] = true
	case *call.Index > have.calls || *call.Index < 0:
		c.add("INV-5", "call %d, want call %d", *call.Index, have.calls)
	case call.ID != "" || call.Type != "" || name != "":
		c.add("INV-5", "call %d repeats its id, type or name", *call.Index)
	}
}

// finished checks what a complete stream must contain.
func (c *chatCheck) finished() {
	if len(c.choices) == 0 {
		c.add("INV-2", "a complete stream without a choice")
	}
	for _, index := range slices.Sorted(maps.Keys(c.choices)) {
		have := c.choices[index]
		called := have.calls > 0 || have.legacy
		switch {
		case have.finish == "":
			c.add("INV-4", "choice %d has no finish reason", index)
		case have.finish == "stop" && called, (have.finish == "tool_calls" || have.finish == "function_call") && !called:
			c.add("INV-12", "choice %d finishes with %q and %d calls", index, have.finish, have.calls)
		}
	}
}
