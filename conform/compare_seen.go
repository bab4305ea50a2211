package conform

import (
	"fmt"
	"slices"
	"strings"
)

// diff is one way in which something did not arrive as it was meant.
type diff struct{ feature, text string }

type diffs []diff

func (d *diffs) add(feature, format string, args ...any) {
	*d = append(*d, diff{feature, fmt.Sprintf(format, args...)})
}

// unclean is a stop that must not be taken for a normal end: an error, or a reason
// that is neither the end nor a call.
const unclean = "unclean"

// compareSeen says where the client saw something else than the upstream said.
func compareSeen(want Reply, got Seen, c Cell) diffs {
	var d diffs
	if want.breaks != "" {
		return compareBroken(want, got)
	}
	if want.Stop == unclean && (got.Fault != nil || got.Stop != "end" && got.Stop != "tool") {
		return d
	}
	if got.Fault != nil {
		d.add("end", "the client saw an error: %s", got.Fault.Message)
		return d
	}
	if !got.Ended {
		d.add("end", "the answer has no proof of its end")
	}
	if w, g := joined(want.Pieces, kindText, kindRefusal), joined(got.Pieces, kindText, kindRefusal); w != g {
		d.add("text", "text is %.300q, want %.300q", g, w)
	}
	if w, g := joined(want.Pieces, kindThink), joined(got.Pieces, kindThink); w != g {
		d.add("think", "reasoning is %q, want %q", g, w)
	}
	compareCalls(&d, want.calls(), got.calls())
	if w, g := kinds(want.Pieces), kinds(got.Pieces); c.Client != Chat && c.Upstream != Chat && w != g {
		d.add("order", "the order is %s, want %s", g, w)
	}
	compareSigs(&d, want.Pieces, got.Pieces, c)
	compareCites(&d, want.Pieces, got.Pieces)
	compareStop(&d, want, got, c)
	compareUsage(&d, want.Usage, got.Usage)
	return d
}

// compareBroken: what was said until the break may be there, an end may not.
func compareBroken(want Reply, got Seen) diffs {
	var d diffs
	if got.Ended {
		d.add("end", "a broken answer looks complete (INV-2)")
	}
	if got.Fault == nil {
		d.add("end", "a broken answer ends without the dialect's error")
	} else if want.Fault != nil && !strings.Contains(got.Fault.Message, want.Fault.Message) {
		d.add("message", "the error says %q, want %q", got.Fault.Message, want.Fault.Message)
	}
	if w, g := joined(want.Pieces, kindText), joined(got.Pieces, kindText); !strings.HasPrefix(w, g) {
		d.add("text", "text before the break is %q, want %q", g, w)
	}
	return d
}

func compareCalls(d *diffs, want, got []Piece) {
	if len(want) != len(got) {
		d.add("call", "%d calls, want %d", len(got), len(want))
		return
	}
	for i := range want {
		w, g := want[i], got[i]
		if w.Name != g.Name {
			d.add("call", "call %d is %s, want %s", i+1, g.Name, w.Name)
		}
		if !sameJSON(w.Args, g.Args) && w.Args != g.Args {
			d.add("call", "call %d has arguments %s, want %s", i+1, g.Args, w.Args)
		}
	}
}

// kinds is the order of the kinds, neighbours of a kind as one, but calls counted.
func kinds(list []Piece) string {
	var out []string
	for _, p := range list {
		k := p.Kind
		if k == kindRefusal {
			k = kindText
		}
		if n := len(out); n == 0 || out[n-1] != k || k == kindCall {
			out = append(out, k)
		}
	}
	return strings.Join(out, " ")
}

func sigs(list []Piece) []string {
	var out []string
	for _, p := range list {
		if p.Sig != "" {
			out = append(out, p.Sig)
		}
	}
	return out
}

// compareSigs: in its own dialect a seal is the same; elsewhere it has to be there
// in some form, and the next round shows whether it can be undone.
func compareSigs(d *diffs, want, got []Piece, c Cell) {
	w, g := sigs(want), sigs(got)
	switch {
	case c.Same() && !slices.Equal(w, g):
		d.add("signature", "signatures are %q, want %q", g, w)
	case len(w) > 0 && len(g) == 0:
		d.add("signature", "the client got nothing that holds the signature")
	}
}

func compareCites(d *diffs, want, got []Piece) {
	list := func(pieces []Piece) []string {
		var out []string
		for _, p := range pieces {
			for _, c := range p.Cites {
				out = append(out, fmt.Sprintf("%s %q for %q", c.URL, c.Title, c.span))
			}
		}
		slices.Sort(out)
		return out
	}
	if w, g := list(want), list(got); !slices.Equal(w, g) {
		d.add("citations", "citations are %s, want %s", g, w)
	}
}

func compareStop(d *diffs, want Reply, got Seen, c Cell) {
	w, g := want.Stop, got.Stop
	if want.has(kindRefusal) {
		w = "filter"
	}
	if w == "sequence" && g == "end" && c.Client != Anthropic {
		d.add("match", "that the stop sequence %q was hit is not told", want.Match)
		return
	}
	if w == "end" && g == "sequence" && c.Upstream != Anthropic {
		return // the upstream could not say it, and the gateway may know
	}
	if w != g {
		d.add("stop", "the stop is %q, want %q", g, w)
	} else if want.Match != got.Match {
		d.add("match", "the stop sequence is %q, want %q", got.Match, want.Match)
	}
}

func compareUsage(d *diffs, want, got *Usage) {
	if want == nil {
		return
	}
	if got == nil {
		d.add("usage", "no usage")
		return
	}
	if want.In != got.In || want.Out != got.Out {
		d.add("usage", "usage is in=%d out=%d, want in=%d out=%d", got.In, got.Out, want.In, want.Out)
	}
	if want.Cached != got.Cached {
		d.add("cached", "cached tokens are %d, want %d", got.Cached, want.Cached)
	}
	if want.Written != got.Written {
		d.add("written", "tokens written to the cache are %d, want %d", got.Written, want.Written)
	}
	if want.Think != got.Think {
		d.add("think-tokens", "reasoning tokens are %d, want %d", got.Think, want.Think)
	}
}
