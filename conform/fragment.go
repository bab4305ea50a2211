package conform

import (
	"fmt"
	"unicode/utf8"
)

// fragments splits a text into parts of different sizes, like the tokens of a model: between
// characters, but also inside words, numbers and JSON escapes. A long text has larger parts.
func fragments(s string, sizes []int) []string {
	var out []string
	if len(sizes) == 0 {
		sizes = []int{1, 4, 2, 7, 3, 5}
	}
	scale := 1 + utf8.RuneCountInString(s)/200
	for i := 0; s != ""; i++ {
		n := 0
		for range sizes[i%len(sizes)] * scale {
			_, size := utf8.DecodeRuneInString(s[n:])
			n += size
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

// fragments returns the fragments of the piece, whose text is s.
func (p Piece) fragments(s string, sizes []int) []string {
	if p.Parts != nil {
		return p.Parts
	}
	return fragments(s, sizes)
}

// step is one fragment of one piece.
type step struct {
	piece int
	text  string
	first bool // the first of the piece
	last  bool // the last of the piece
}

// steps returns the fragments of all pieces in the order of the stream. With interleave, the
// fragments of calls alternate.
func (r Response) steps(body func(Piece) string) []step {
	var out, calls [][]step
	for i, p := range r.Pieces {
		parts := append([]string{""}, p.fragments(body(p), r.grain)...)
		var l []step
		for j, f := range parts {
			l = append(l, step{piece: i, text: f, first: j == 0, last: j == len(parts)-1})
		}
		if r.interleave && p.Kind == kindCall {
			calls = append(calls, l)
		} else {
			out = append(out, l)
		}
	}
	var flat []step
	for _, l := range out {
		flat = append(flat, l...)
	}
	for more := true; more; {
		more = false
		for i, l := range calls {
			if len(l) > 0 {
				flat, calls[i], more = append(flat, l[0]), l[1:], true
			}
		}
	}
	return flat
}

// callID returns an id in the form of the vendor. Gemini's developer API has none.
func callID(d Dialect, number int) string {
	switch d {
	case Anthropic:
		return fmt.Sprintf("toolu_01Cn%dKq7XvT", number)
	case Gemini:
		return ""
	case Converse:
		return fmt.Sprintf("tooluse_Cn%dKq7XvTb2", number)
	default:
		return fmt.Sprintf("call_Cn%dKq7XvTb2", number)
	}
}

// named returns the pieces with ids of the dialect for calls and results that have none.
func named(list []Piece, d Dialect) []Piece {
	out := append([]Piece(nil), list...)
	for i, p := range out {
		if (p.Kind == kindCall || p.Kind == kindResult) && p.ID == "" {
			out[i].ID = callID(d, p.number)
		}
	}
	return out
}

// texts returns the text of a result in the parts in which it is written.
func (p Piece) texts() []string {
	if r := []rune(p.Text); p.split && len(r) > 1 {
		return []string{string(r[:len(r)/2]), string(r[len(r)/2:])}
	}
	return []string{p.Text}
}

// filterPieces returns the pieces for which keep returns true. It may change them.
func filterPieces(list []Piece, keep func(*Piece) bool) []Piece {
	var out []Piece
	for _, p := range list {
		if keep(&p) {
			out = append(out, p)
		}
	}
	return out
}

// mapTurns applies filterPieces to every turn and removes turns that become empty.
func mapTurns(turns []Turn, keep func(role string, p *Piece) bool) []Turn {
	var out []Turn
	for _, t := range turns {
		had := len(t.Pieces)
		t.Pieces = filterPieces(t.Pieces, func(p *Piece) bool { return keep(t.Role, p) })
		if len(t.Pieces) > 0 || had == 0 {
			out = append(out, t)
		}
	}
	return out
}

// appendText appends text to the last piece if it has the same kind, or adds a piece.
func appendText(list []Piece, kind, text string) []Piece {
	if text == "" {
		return list
	}
	if n := len(list); n > 0 && list[n-1].Kind == kind && list[n-1].Cites == nil && list[n-1].Sig == "" {
		list[n-1].Text += text
		return list
	}
	return append(list, Piece{Kind: kind, Text: text})
}

// runes returns a span of s that is counted in code points.
func runes(s string, from, to int) string {
	r := []rune(s)
	if from < 0 || to > len(r) || from > to {
		return fmt.Sprintf("span %d-%d outside of %d characters", from, to, len(r))
	}
	return string(r[from:to])
}
