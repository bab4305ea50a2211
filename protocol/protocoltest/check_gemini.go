package protocoltest

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// CheckGemini checks INV-2, INV-3 and INV-11 for a stream of generateContent. INV-12 does
// not apply, because Gemini has no finish reason of its own for tool calls.
func CheckGemini(stream []byte) (Ending, error) {
	c := geminiCheck{ending: Open, finished: map[int]string{}}
	for i, e := range eventsOf(stream, &c.faults) {
		c.at = i
		c.event(e)
	}
	if c.ending == Failed {
		return Failed, c.err()
	}
	for _, index := range slices.Sorted(maps.Keys(c.finished)) {
		if c.finished[index] == "" {
			return Open, c.err()
		}
	}
	if len(c.finished) > 0 || c.blocked {
		c.ending = Completed
	}
	return c.ending, c.err()
}

type geminiCheck struct {
	faults
	ending   Ending
	id       string
	finished map[int]string // finish reason by candidate; empty before it was sent
	blocked  bool
}

type geminiEvent struct {
	Candidates []struct {
		Index   int `json:"index"`
		Content *struct {
			Role  string           `json:"role"`
			Parts []jsontext.Value `json:"parts"`
		} `json:"content"`
		FinishReason string `json:"finishReason"`
	} `json:"candidates"`
	PromptFeedback jsontext.Value `json:"promptFeedback"`
	Usage          jsontext.Value `json:"usageMetadata"`
	ID             string         `json:"responseId"`
	Error          jsontext.Value `json:"error"`
}

func (c *geminiCheck) event(e event) {
	if c.ending != Open {
		c.add("INV-3", "output after the error: %s", e.data)
		return
	}
	if e.name != "" || string(e.data) == "[DONE]" {
		c.add("INV-11", "a sentinel or an event name: %q %s", e.name, e.data)
		return
	}
	var g geminiEvent
	if !into(&c.faults, e.data, &g) {
		return
	}
	if isSet(g.Error) {
		c.ending = Failed
		return
	}
	if len(g.Candidates) == 0 && !isSet(g.PromptFeedback) && !isSet(g.Usage) {
		c.add("INV-11", "an empty event: %s", e.data)
	}
	if c.id == "" {
		c.id = g.ID
	}
	if g.ID != c.id {
		c.add("INV-11", "the response id changes from %q to %q", c.id, g.ID)
	}
	c.blocked = c.blocked || isSet(g.PromptFeedback)
	for _, candidate := range g.Candidates {
		if c.finished[candidate.Index] != "" {
			c.add("INV-3", "candidate %d continues after its finish reason", candidate.Index)
		}
		c.finished[candidate.Index] = candidate.FinishReason
		if candidate.Content != nil {
			c.parts(candidate.Content.Parts)
		}
	}
}

func (c *geminiCheck) parts(parts []jsontext.Value) {
	for _, raw := range parts {
		var p struct {
			FunctionCall *struct {
				Name string         `json:"name"`
				Args jsontext.Value `json:"args"`
			} `json:"functionCall"`
		}
		if !into(&c.faults, raw, &p) || p.FunctionCall == nil {
			continue
		}
		if p.FunctionCall.Name == "" || isSet(p.FunctionCall.Args) && p.FunctionCall.Args.Kind() != '{' {
			c.add("INV-11", "a call without a name, or whose arguments are not an object: %s", raw)
		}
	}
}
