package conform

import (
	"fmt"
	"slices"
	"strings"
)

// diff is a difference between what was sent and what was received.
type diff struct{ feature, text string }

type diffs []diff

func (d *diffs) add(feature, format string, args ...any) {
	*d = append(*d, diff{feature, fmt.Sprintf(format, args...)})
}

// addIf adds a difference if differs holds.
func (d *diffs) addIf(differs bool, feature, format string, args ...any) {
	if differs {
		d.add(feature, format, args...)
	}
}

// unclean is the stop reason of a case that accepts an error, or any stop reason except the
// end and a call.
const unclean = "unclean"

// compareResponse lists where the client response differs from the upstream response.
func compareResponse(want Response, got Reading, c Cell) diffs {
	var d diffs
	if want.breaks != "" {
		return compareBroken(want, got)
	}
	if want.Stop == unclean && (got.Err != nil || got.Stop != "end" && got.Stop != "tool") {
		return d
	}
	if got.Err != nil {
		d.add("end", "the client saw an error: %s", got.Err.Message)
		return d
	}
	d.addIf(!got.Ended, "end", "the answer has no proof of its end")
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
	compareUsage(&d, want.Usage, got.Usage, c)
	return d
}

// compareBroken checks that a response that breaks off ends with an error.
func compareBroken(want Response, got Reading) diffs {
	var d diffs
	d.addIf(got.Ended || got.Stop != "", "end", "a broken answer looks complete (INV-2)")
	if got.Err == nil {
		d.add("end", "a broken answer ends without the dialect's error")
	} else if want.Err != nil && !strings.Contains(got.Err.Message, want.Err.Message) {
		d.add("message", "the error says %q, want %q", got.Err.Message, want.Err.Message)
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
		d.addIf(w.Name != g.Name, "call", "call %d is %s, want %s", i+1, g.Name, w.Name)
		d.addIf(sameWhole(w.Args, g.Args), "half", "call %d has arguments %s, want %s", i+1, g.Args, w.Args)
		d.addIf(!sameJSON(w.Args, g.Args) && w.Args != g.Args && !sameWhole(w.Args, g.Args), "call", "call %d has arguments %s, want %s", i+1, g.Args, w.Args)
	}
}

// kinds returns the order of the kinds. Adjacent pieces of a kind count once, except calls.
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

// sealOfNothing is the gateway's signature of reasoning that nobody has sealed: "isogloss:{}" in Base64.
const sealOfNothing = "aXNvZ2xvc3M6e30="

// compareSigs checks that signatures are the same for a client of the same dialect, and
// present in some form for other clients. The next round shows whether the gateway can
// restore them.
func compareSigs(d *diffs, want, got []Piece, c Cell) {
	w, g := sigs(want), sigs(got)
	if !c.Same() {
		g = slices.DeleteFunc(g, func(s string) bool { return s == sealOfNothing })
	}
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

func compareStop(d *diffs, want Response, got Reading, c Cell) {
	w, g := want.Stop, got.Stop
	if want.has(kindRefusal) {
		w = "filter"
	}
	if w == "sequence" && g == "end" && c.Client != Anthropic && c.Client != Converse {
		d.add("match", "that the stop sequence %q was hit is not told", want.Match)
		return
	}
	if w == "end" && g == "sequence" && c.Upstream != Anthropic && c.Upstream != Converse {
		return // the gateway may know the stop sequence although the upstream cannot report it
	}
	if w != g {
		d.add("stop", "the stop is %q, want %q", g, w)
	} else if want.Match != got.Match {
		d.add("match", "the stop sequence is %q, want %q", got.Match, want.Match)
	}
}

func compareUsage(d *diffs, want, got *Usage, c Cell) {
	if want == nil {
		return
	}
	if got == nil {
		d.add("usage", "no usage")
		return
	}
	d.addIf(want.In != got.In || want.Out != got.Out, "usage", "usage is in=%d out=%d, want in=%d out=%d", got.In, got.Out, want.In, want.Out)
	d.addIf(want.Cached != got.Cached, "cached", "cached tokens are %d, want %d", got.Cached, want.Cached)
	d.addIf(want.Written != got.Written, "written", "tokens written to the cache are %d, want %d", got.Written, want.Written)
	d.addIf(want.Think != got.Think && c.Client != Converse, "think-tokens", "reasoning tokens are %d, want %d", got.Think, want.Think)
}
