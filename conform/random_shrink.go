package conform

import (
	"context"
	"slices"
)

// shrinkPlays is the most that one failure is played to reduce it.
const shrinkPlays = 500

// shrink removes parts of a dialogue as long as the failure of the kind stays.
func (y *player) shrink(ctx context.Context, d dialogue, cell Cell, kind string) (dialogue, played) {
	fails := func(d dialogue) (played, bool) {
		p := y.play(ctx, d, cell)
		return p, slices.ContainsFunc(p.findings, func(f finding) bool { return f.kind == kind })
	}
	best, ok := fails(d)
	if !ok {
		return d, best
	}
	left := shrinkPlays
	for smaller := true; smaller && left > 0; {
		smaller = false
		for _, c := range d.reductions() {
			if left--; left < 0 || ctx.Err() != nil {
				break
			}
			if p, ok := fails(c); ok {
				d, best, smaller = c, p, true
				break
			}
		}
	}
	return d, best
}

// reductions returns smaller dialogues, the smallest first.
func (d dialogue) reductions() []dialogue {
	var out []dialogue
	edit := func(change func(*dialogue)) {
		c := d.clone()
		change(&c)
		out = append(out, c)
	}
	for i := len(d.rounds) - 1; i > 0; i-- {
		edit(func(c *dialogue) { c.rounds = c.rounds[:i] })
	}
	if len(d.rounds) > 1 {
		edit(func(c *dialogue) { // the first rounds become history
			first := c.rounds[0]
			turns := append(slices.Clone(first.turns), Turn{Role: "assistant", Pieces: first.answer.Pieces})
			c.rounds = c.rounds[1:]
			c.rounds[0].turns = append(turns, c.rounds[0].turns...)
		})
	}
	for i := range d.rounds {
		for j := len(d.rounds[i].turns) - 1; j >= 0; j-- {
			edit(func(c *dialogue) { c.dropTurn(i, j) })
		}
	}
	d.reduceSettings(edit)
	for i := range d.rounds {
		for j, t := range d.rounds[i].turns {
			for k := range t.Pieces {
				edit(func(c *dialogue) { c.dropPiece(&c.rounds[i].turns[j].Pieces, k) })
				reducePiece(t.Pieces[k], func(p Piece) { edit(func(c *dialogue) { c.rounds[i].turns[j].Pieces[k] = p }) })
			}
			if t.Developer {
				edit(func(c *dialogue) { c.rounds[i].turns[j].Developer = false })
			}
		}
		d.reduceAnswer(i, edit)
	}
	return out
}

// dropTurn removes a turn with the results of its calls.
func (d *dialogue) dropTurn(i, j int) {
	t := d.rounds[i].turns[j]
	d.rounds[i].turns = slices.Delete(d.rounds[i].turns, j, j+1)
	for _, p := range t.Pieces {
		if p.number > 0 {
			d.dropCall(p.number)
		}
	}
	d.dropEmpty()
}

// dropPiece removes a piece. A call goes with its result.
func (d *dialogue) dropPiece(list *[]Piece, k int) {
	if n := (*list)[k].number; n > 0 {
		d.dropCall(n)
	} else {
		*list = slices.Delete(*list, k, k+1)
	}
	d.dropEmpty()
}

func (d *dialogue) dropCall(number int) {
	gone := func(p Piece) bool { return p.number == number }
	for i := range d.rounds {
		r := &d.rounds[i]
		for j := range r.turns {
			r.turns[j].Pieces = slices.DeleteFunc(r.turns[j].Pieces, gone)
		}
		r.answer.Pieces = slices.DeleteFunc(r.answer.Pieces, gone)
		if len(r.answer.calls()) == 0 && r.answer.Stop == "tool" {
			r.answer.Stop = "end"
		}
	}
}

func (d *dialogue) dropEmpty() {
	for i := range d.rounds {
		r := &d.rounds[i]
		r.turns = slices.DeleteFunc(r.turns, func(t Turn) bool { return len(t.Pieces) == 0 })
		first := slices.IndexFunc(r.turns, func(t Turn) bool { return t.Role != "system" })
		if first < 0 || i == 0 && r.turns[first].Role != "user" {
			at := max(first, 0)
			if first < 0 {
				at = len(r.turns)
			}
			r.turns = slices.Insert(r.turns, at, Turn{Role: "user", Pieces: []Piece{{Kind: kindText, Text: "x"}}})
		}
		if len(r.answer.Pieces) == 0 {
			r.answer.Pieces = []Piece{{Kind: kindText, Text: "y"}}
		}
	}
}

func (d dialogue) reduceSettings(edit func(func(*dialogue))) {
	none := func(name func(*dialogue) *string) {
		if *name(&d) != "" {
			edit(func(c *dialogue) { *name(c) = "" })
		}
	}
	none(func(c *dialogue) *string { return &c.settings.Choice })
	none(func(c *dialogue) *string { return &c.settings.Max })
	none(func(c *dialogue) *string { return &c.settings.Temperature })
	none(func(c *dialogue) *string { return &c.settings.TopP })
	none(func(c *dialogue) *string { return &c.settings.TopK })
	none(func(c *dialogue) *string { return &c.settings.Seed })
	none(func(c *dialogue) *string { return &c.settings.Frequency })
	none(func(c *dialogue) *string { return &c.settings.Presence })
	none(func(c *dialogue) *string { return &c.settings.Choices })
	none(func(c *dialogue) *string { return &c.settings.Reasoning })
	none(func(c *dialogue) *string { return &c.settings.User })
	if d.settings.Serial {
		edit(func(c *dialogue) { c.settings.Serial = false })
	}
	if d.settings.Format != nil {
		edit(func(c *dialogue) { c.settings.Format = nil })
	}
	if len(d.settings.Stop) > 0 {
		edit(func(c *dialogue) { c.settings.Stop = nil })
	}
	if len(d.frame.names) > 0 || d.frame.cut != 0 || d.frame.cuts != nil {
		edit(func(c *dialogue) { c.frame = framing{} })
	}
	for i, t := range d.settings.Tools {
		edit(func(c *dialogue) { c.settings.Tools = slices.Delete(c.settings.Tools, i, i+1) })
		if t.Strict || t.Cache {
			edit(func(c *dialogue) { c.settings.Tools[i].Strict, c.settings.Tools[i].Cache = false, false })
		}
		if small := `{"type":"object","properties":{}}`; t.Schema != small {
			edit(func(c *dialogue) { c.settings.Tools[i].Schema = small })
		}
		if t.About != "t" {
			edit(func(c *dialogue) { c.settings.Tools[i].About = "t" })
		}
	}
}

// reducePiece passes on simpler forms of a piece.
func reducePiece(p Piece, with func(Piece)) {
	change := func(is bool, do func(*Piece)) {
		if is {
			c := p
			do(&c)
			with(c)
		}
	}
	change(len(p.Text) > 1, func(c *Piece) { c.Text = "x" })
	change(len(p.Text) > 8, func(c *Piece) { c.Text = string([]rune(c.Text)[:len([]rune(c.Text))/2]) })
	change(len(p.Text) > 8, func(c *Piece) { c.Text = string([]rune(c.Text)[len([]rune(c.Text))/2:]) })
	change(len(p.Args) > 2, func(c *Piece) { c.Args = "{}" })
	change(p.Cache, func(c *Piece) { c.Cache = false })
	change(p.Failed, func(c *Piece) { c.Failed = false })
	change(p.Missing, func(c *Piece) { c.Missing = false })
	change(p.Images != nil, func(c *Piece) { c.Images = nil })
	change(p.Sig != "" && !p.Redacted && len(p.Sig) > 12, func(c *Piece) { c.Sig = "c2VhbGVk" })
}

func (d dialogue) reduceAnswer(i int, edit func(func(*dialogue))) {
	a := d.rounds[i].answer
	for k := range a.Pieces {
		if len(a.Pieces) > 1 {
			edit(func(c *dialogue) { c.dropPiece(&c.rounds[i].answer.Pieces, k) })
		}
		reducePiece(a.Pieces[k], func(p Piece) { edit(func(c *dialogue) { c.rounds[i].answer.Pieces[k] = p }) })
	}
	if a.Usage != nil && *a.Usage != (Usage{In: 1, Out: 1}) {
		edit(func(c *dialogue) { c.rounds[i].answer.Usage = &Usage{In: 1, Out: 1} })
	}
	if a.grain != nil || a.interleave {
		edit(func(c *dialogue) { c.rounds[i].answer.grain, c.rounds[i].answer.interleave = nil, false })
	}
	if a.Stop != "end" && len(a.calls()) == 0 && !a.has(kindRefusal) {
		edit(func(c *dialogue) { c.rounds[i].answer.Stop, c.rounds[i].answer.Match = "end", "" })
	}
}
