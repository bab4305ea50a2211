package llm

import "strings"

// Explode returns a complete response as the events of a stream. A [Collector]
// builds the same response from them.
func Explode(r *Response) []Event {
	start := Start{ID: r.ID, Model: r.Model, Created: r.Created, Tier: r.Tier, Ext: r.Ext}
	if u := r.Usage; u != nil { // some clients read the input tokens only from here, USE-06
		start.Usage = new(u.Of(InputTotal))
	}
	events := []Event{start}
	for _, c := range r.Choices {
		for i, b := range c.Blocks {
			events = explodeBlock(events, c.Index, i, b)
		}
	}
	if r.Usage != nil {
		events = append(events, UsageUpdate{Usage: *r.Usage, Tier: r.UsageTier})
	}
	for _, c := range r.Choices {
		events = append(events, ChoiceEnd{Choice: c.Index, Stop: c.Stop, Ext: c.Ext})
	}
	return append(events, End{})
}

func explodeBlock(events []Event, choice, index int, b Block) []Event {
	delta := func(part int, form, text string) {
		if text != "" || form != "" {
			events = append(events, Delta{Choice: choice, Index: index, Text: text, Part: part, Form: form})
		}
	}
	start := func(skeleton Block) { events = append(events, BlockStart{choice, index, skeleton}) }
	seals := b.Common().Seals
	meta := *b.Common()
	meta.Seals = nil
	switch b := b.(type) {
	case *Text:
		start(&Text{Meta: meta, Phase: b.Phase})
		delta(0, "", b.Text)
		events = explodeLogprobs(events, choice, index, b.Logprobs)
		for _, c := range b.Citations {
			events = append(events, Cite{choice, index, c})
		}
	case *Refusal:
		start(&Refusal{Meta: meta})
		delta(0, "", b.Text)
		events = explodeLogprobs(events, choice, index, b.Logprobs)
	case *ToolCall:
		skeleton := *b
		skeleton.Meta, skeleton.Args = meta, ""
		start(&skeleton)
		delta(0, "", b.Args)
	case *Thought:
		start(&Thought{Meta: meta})
		for i, p := range b.Parts {
			delta(i, p.Form, p.Text)
		}
	default: // has no deltas; BlockStart holds all of it, seals included
		start(b)
		seals = nil
	}
	for _, s := range seals {
		events = append(events, SealDelta{choice, index, s})
	}
	return append(events, BlockEnd{choice, index})
}

func explodeLogprobs(events []Event, choice, index int, list Raw) []Event {
	inner := strings.TrimSpace(string(list))
	if len(inner) < 2 || inner[0] != '[' {
		return events
	}
	inner = strings.TrimSpace(inner[1 : len(inner)-1])
	if inner == "" {
		return events
	}
	return append(events, Logprobs{choice, index, Raw(inner)})
}
