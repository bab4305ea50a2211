package pair

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

// Turns returns the turns with the seals that the model reads under the name of the upstream's
// protocol. They are the seals of the model's maker, of any protocol that serves it: what the
// client sent, and what restore adds of those that an origin has made.
func (p *Pair) Turns(turns []llm.Turn, restore func(origin string, turns []llm.Turn) []llm.Turn) []llm.Turn {
	own, reads := p.Upstream.Name, maker(p.Upstream, p.Model)
	if p.Client == p.Upstream {
		return relabel(restore(string(own), turns), string(reads), string(own))
	}
	turns = relabel(turns, string(p.Client.Name), string(maker(p.Client, p.ClientModel)))
	if reads != own {
		turns = relabel(turns, string(own), "") // of another maker's model
	}
	return relabel(restore(string(reads), turns), string(reads), string(own))
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

// makes returns the protocol of the seals in the upstream's responses, or "" if it is the upstream's
// own or if the client has the upstream's dialect.
func (p *Pair) makes() string {
	name := maker(p.Upstream, p.Model)
	if name == p.Upstream.Name || p.Client == p.Upstream {
		return ""
	}
	return string(name)
}

// NewDecoder returns a decoder for the upstream's stream. It names the maker of each seal.
func (p *Pair) NewDecoder() protocol.StreamDecoder {
	decoder := p.Upstream.Codec.NewStreamDecoder()
	if made := p.makes(); made != "" {
		return &makerDecoder{StreamDecoder: decoder, from: string(p.Upstream.Name), to: made}
	}
	return decoder
}

// Relabel names the maker of each seal in the upstream's response.
func (p *Pair) Relabel(resp *llm.Response) {
	made := p.makes()
	if made == "" {
		return
	}
	for _, c := range resp.Choices {
		for _, b := range c.Blocks {
			relabelSeals(b.Common().Seals, string(p.Upstream.Name), made)
		}
	}
}
