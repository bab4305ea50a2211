package conform

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// ideal is a gateway made from the runner's own readers and writers. It keeps all
// that can be kept and owns up to the rest, so that what fails on it is a mistake
// in how a case or the comparison looks at a pair of dialects. harm, if there is
// one, spoils answers, so that the corpus can show that it notices.
type ideal struct {
	upstream string
	fidelity string       // what its header says; "dropped" if empty
	minted   atomic.Int64 // ids for calls that came without
	harm     func(*Ask, *Reply)
}

func (g *ideal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	in := spokenAt(r.URL.Path)
	client := voiceOf(in)
	h := client.readAsk(body, r.Header, r.URL.Path)
	out := Dialect(strings.TrimPrefix(h.model, "on-"))
	up := voiceOf(out)
	ask := h.Ask
	var none Reply
	if g.harm != nil {
		g.harm(&ask, &none)
	}
	req, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, g.url(out, h.stream), bytes.NewReader(up.writeAsk(foreign(ask, out), "up", h.stream)))
	up.credential(req.Header, "sk-upstream")
	resp, err := http.DefaultClient.Do(req)
	w.Header().Set("Isogloss-Fidelity", cmp.Or(g.fidelity, "dropped"))
	if err != nil {
		g.fail(w, client, Fault{Kind: "server", Status: 502, Message: err.Error()})
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		f, _ := up.readFault(resp.StatusCode, answer)
		f.Status, f.Retry = 0, resp.Header.Get("Retry-After")
		g.fail(w, client, f)
		return
	}
	g.answer(w, client, up, h, answer, err)
}

func (g *ideal) url(out Dialect, stream bool) string {
	return Target{BaseURL: g.upstream, Models: map[Dialect]string{out: "up"}}.url(Cell{out, out, stream}, &Case{})
}

func (g *ideal) fail(w http.ResponseWriter, client voice, f Fault) {
	status, body := client.writeFault(f)
	if f.Retry != "" {
		w.Header().Set("Retry-After", f.Retry)
	}
	whole(w, status, "application/json", body)
}

func (g *ideal) answer(w http.ResponseWriter, client, up voice, h heard, body []byte, broken error) {
	var s Seen
	if h.stream {
		events, _ := readEvents(body)
		s = up.readStream(events)
	} else {
		s = up.readWhole(body)
	}
	r := Reply{Pieces: s.Pieces, Stop: s.Stop, Match: s.Match, Usage: s.Usage, want: wishes{true, true}, model: h.model}
	r = client.canAnswer(split(unsealed(r)))
	for i, p := range r.Pieces {
		if p.Kind == kindCall && !anthropicID.MatchString(p.ID) {
			r.Pieces[i].ID = fmt.Sprintf("call_minted%d", g.minted.Add(1))
		}
	}
	if g.harm != nil {
		g.harm(&h.Ask, &r)
	}
	if broken != nil || !s.Ended && s.Fault == nil {
		s.Fault = &Fault{Kind: "server", Status: 502, Message: "the upstream broke off"}
	}
	switch {
	case s.Fault != nil && h.stream:
		stream(w, framing{}.chunks(client.writeStreamFault(*s.Fault, r)))
	case s.Fault != nil:
		g.fail(w, client, *s.Fault)
	case h.stream:
		stream(w, framing{}.chunks(client.writeStream(r)))
	default:
		whole(w, http.StatusOK, "application/json", client.writeWhole(r))
	}
}

// split cuts texts at the borders of their citations, as Messages has them.
func split(r Reply) Reply {
	r.Pieces = slices.Clone(r.Pieces)
	for i := 0; i < len(r.Pieces); i++ {
		p := r.Pieces[i]
		if len(p.Cites) < 2 && (len(p.Cites) == 0 || p.Cites[0].span == p.Text) {
			continue
		}
		var parts []Piece
		rest := p.Text
		for _, c := range p.Cites {
			before, after, _ := strings.Cut(rest, c.span)
			parts = appendText(parts, kindText, before)
			parts = append(parts, Piece{Kind: kindText, Text: c.span, Cites: []Cite{c}})
			rest = after
		}
		if rest != "" {
			parts = append(parts, Piece{Kind: kindText, Text: rest})
		}
		r.Pieces = slices.Replace(r.Pieces, i, i+1, parts...)
		i += len(parts) - 1
	}
	return r
}

// foreign fits an ask to the dialect of the upstream.
func foreign(a Ask, out Dialect) Ask {
	a.Turns = slices.Clone(a.Turns)
	names := map[string]string{}
	for i, t := range a.Turns {
		var carried string
		a.Turns[i].Pieces = filterPieces(reseal(t.Pieces), func(p *Piece) bool {
			if p.Kind == kindCall {
				names[p.ID] = p.Name
			}
			if p.Kind == kindResult {
				p.Name = names[p.ID]
				if p.Failed && out != Anthropic && out != Gemini {
					p.Text = "error: " + p.Text
				}
			}
			if out == Gemini && (p.Kind == kindCall || p.Kind == kindText) && carried != "" {
				p.Sig, carried = carried, ""
			}
			p.ID = strings.ReplaceAll(p.ID, "by order ", "call_order_")
			switch {
			case p.Kind == kindThink && out == Gemini:
				carried = p.Sig
				return false
			case p.Kind == kindThink:
				return p.Sig != "" && out != Chat
			}
			return true
		})
	}
	if a.Format != nil && a.Format.Name == "" {
		a.Format = &Format{"answer", a.Format.Schema}
	}
	return imagesAside(merged(a, out), out)
}

// reseal moves a seal that Gemini's form has on a call back to its reasoning.
func reseal(pieces []Piece) []Piece {
	var out []Piece
	for _, p := range pieces {
		if p.Kind != kindThink && p.Sig != "" {
			if n := len(out); n > 0 && out[n-1].Kind == kindThink {
				out[n-1].Sig = p.Sig
			} else {
				out = append(out, Piece{Kind: kindThink, Sig: p.Sig})
			}
			p.Sig = ""
		}
		out = append(out, p)
	}
	return out
}

func unsealed(r Reply) Reply {
	r.Pieces = reseal(r.Pieces)
	return r
}

// merged joins results, and turns of one speaker where the dialect wants it.
func merged(a Ask, out Dialect) Ask {
	var turns []Turn
	for _, t := range a.Turns {
		n := len(turns)
		join := n > 0 && t.Role == turns[n-1].Role && (t.Role == "tool" || t.Role == "assistant")
		if t.Role == "system" && n > 0 && turns[n-1].Role != "system" && out == Anthropic {
			t.Role = "user"
		}
		if join {
			turns[n-1].Pieces = append(slices.Clone(turns[n-1].Pieces), t.Pieces...)
			continue
		}
		turns = append(turns, t)
	}
	a.Turns = turns
	order := map[string]int{}
	for _, t := range a.Turns {
		for i, p := range t.Pieces {
			if p.Kind == kindCall {
				order[p.ID] = i
			}
		}
		if t.Role == "tool" {
			slices.SortStableFunc(t.Pieces, func(x, y Piece) int { return order[x.ID] - order[y.ID] })
		}
	}
	return a
}

// imagesAside puts the images of results into a turn of the user for Chat.
func imagesAside(a Ask, out Dialect) Ask {
	if out != Chat {
		return a
	}
	var turns []Turn
	for _, t := range a.Turns {
		turns = append(turns, t)
		user := Turn{Role: "user"}
		for _, p := range t.Pieces {
			for _, i := range p.Images {
				user.Pieces = append(user.Pieces, Piece{Kind: kindImage, Image: i})
			}
		}
		if user.Pieces != nil {
			turns = append(turns, user)
		}
	}
	a.Turns = turns
	return a
}

func through(t *testing.T, g *ideal) *Runner {
	t.Helper()
	r := direct(t)
	g.upstream = r.Upstream.URL()
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	r.Target.BaseURL, r.Target.Direct = server.URL, false
	for _, d := range Dialects() {
		r.Target.Models[d] = "on-" + string(d)
	}
	return r
}

// TestSituationsHoldOnAnIdealGateway runs the situations in the cells between two
// dialects.
func TestSituationsHoldOnAnIdealGateway(t *testing.T) {
	cases, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	r := through(t, &ideal{})
	for _, c := range cases {
		if c.Group() != "situations" {
			continue
		}
		for _, cell := range r.Cells(c) {
			if cell.Same() {
				continue
			}
			if res := r.Run(t.Context(), c, cell); !res.Held() {
				t.Errorf("%s %s: %q", c.Name, cell, res.Problems)
				if testing.Verbose() {
					t.Log(res.Bytes)
				}
			}
		}
	}
}
