package translate

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// maker returns the protocol whose seals a model of a dialect makes and reads. It is the dialect's
// own if the dialect serves the models of one maker, or if the maker is not known.
func maker(d *codec.Dialect, model string) protocol.Name {
	if d.Maker != nil {
		if name := d.Maker(model); name != "" {
			return name
		}
	}
	return d.Name
}

// seals returns the turns with the seals that the target's model reads under the name of the
// target's protocol. They are the seals of the model's maker, of any protocol that serves it: what
// the client sent, and what the gateway has stored for it.
func (a *attempt) seals(turns []llm.Turn) []llm.Turn {
	own, reads := a.target.Dialect.Name, maker(a.target.Dialect, a.target.Model)
	client := a.call.Dialect
	if client == a.target.Dialect {
		return relabel(a.lane.Seals.Restore(a.caller(), string(own), turns), string(reads), string(own))
	}
	turns = relabel(turns, string(client.Name), string(maker(client, a.call.Body.Model)))
	if reads != own {
		turns = relabel(turns, string(own), "") // of another maker's model
	}
	return relabel(a.lane.Seals.Restore(a.caller(), string(reads), turns), string(reads), string(own))
}

// relabel returns turns in which the seals of one origin have another. It does not change its
// argument.
func relabel(turns []llm.Turn, from, to string) []llm.Turn {
	if from == to {
		return turns
	}
	has := func(b llm.Block) bool {
		return slices.ContainsFunc(b.Common().Seals, func(s llm.Seal) bool { return s.Origin == from })
	}
	var out []llm.Turn
	for i, t := range turns {
		for k, b := range t.Blocks {
			if !has(b) {
				continue
			}
			if out == nil {
				out = slices.Clone(turns)
			}
			if &out[i].Blocks[0] == &t.Blocks[0] {
				out[i].Blocks = slices.Clone(t.Blocks)
			}
			out[i].Blocks[k] = relabelBlock(b, from, to)
		}
	}
	if out == nil {
		return turns
	}
	return out
}

// relabelBlock returns a copy of a block that may have seals.
func relabelBlock(b llm.Block, from, to string) llm.Block {
	switch c := b.(type) {
	case *llm.Thought:
		copied := *c
		b = &copied
	case *llm.Text:
		copied := *c
		b = &copied
	case *llm.ToolCall:
		copied := *c
		b = &copied
	default:
		return b
	}
	m := b.Common()
	m.Seals = slices.Clone(m.Seals)
	relabelSeals(m.Seals, from, to)
	return b
}

func relabelSeals(seals []llm.Seal, from, to string) {
	for i := range seals {
		if seals[i].Origin == from {
			seals[i].Origin = to
		}
	}
}

// makerDecoder decodes the stream of a model whose seals belong to another protocol.
type makerDecoder struct {
	protocol.StreamDecoder
	from, to string
}

// Decode decodes one event.
func (d *makerDecoder) Decode(name, data []byte, to []llm.Event) []llm.Event {
	return d.relabel(d.StreamDecoder.Decode(name, data, to), len(to))
}

// Finish ends the stream.
func (d *makerDecoder) Finish(to []llm.Event) []llm.Event {
	return d.relabel(d.StreamDecoder.Finish(to), len(to))
}

func (d *makerDecoder) relabel(events []llm.Event, start int) []llm.Event {
	for i, event := range events[start:] {
		switch e := event.(type) {
		case llm.BlockStart:
			relabelSeals(e.Block.Common().Seals, d.from, d.to)
		case llm.SealDelta:
			if e.Seal.Origin == d.from {
				e.Seal.Origin = d.to
				events[start+i] = e
			}
		}
	}
	return events
}

// makes returns the protocol of the seals in the target's responses, or "" if it is the target's
// own or if the client has the target's dialect.
func (a *attempt) makes() string {
	name := maker(a.target.Dialect, a.target.Model)
	if name == a.target.Dialect.Name || a.call.Dialect == a.target.Dialect {
		return ""
	}
	return string(name)
}
