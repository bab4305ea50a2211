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

// ideal is a gateway of the runner's own codecs. It keeps everything that the dialects can
// express and reports the rest, so a failure is a mistake in a case or in the comparison.
// harm changes requests and responses to show that the corpus notices.
type ideal struct {
	upstream string
	fidelity string       // the value of its header; "dropped" if empty
	minted   atomic.Int64 // the number of generated call ids
	harm     func(*Request, *Response)
}

func (g *ideal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	in := dialectAt(r.URL.Path)
	client := codecOf(in)
	h := client.readRequest(body, r.Header, r.URL.Path)
	out := Dialect(strings.TrimPrefix(h.Model, "on-"))
	up := codecOf(out)
	ask := h.Request
	var none Response
	if g.harm != nil {
		g.harm(&ask, &none)
	}
	req, _ := http.NewRequestWithContext(r.Context(), http.MethodPost, g.url(out, h.Stream), bytes.NewReader(up.writeRequest(foreign(ask, out), "up", h.Stream)))
	up.credential(req.Header, "sk-upstream")
	resp, err := http.DefaultClient.Do(req)
	w.Header().Set("Isogloss-Fidelity", cmp.Or(g.fidelity, "dropped"))
	if err != nil {
		g.fail(w, client, APIError{Kind: "server", Status: 502, Message: err.Error()})
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		f, _ := up.readError(resp.StatusCode, answer)
		f.Status, f.Retry = 0, resp.Header.Get("Retry-After")
		g.fail(w, client, f)
		return
	}
	g.answer(w, in, out, h, answer, err)
}

func (g *ideal) url(out Dialect, stream bool) string {
	return Target{BaseURL: g.upstream, Models: map[Dialect]string{out: "up"}}.url(Cell{out, out, stream}, &Case{})
}

func (g *ideal) fail(w http.ResponseWriter, client codec, f APIError) {
	status, body := client.writeError(f)
	if f.Retry != "" {
		w.Header().Set("Retry-After", f.Retry)
	}
	whole(w, status, "application/json", body)
}

func (g *ideal) answer(w http.ResponseWriter, in, out Dialect, h Received, body []byte, broken error) {
	client, up := codecOf(in), codecOf(out)
	var s Reading
	if h.Stream {
		events, _ := out.readEvents(body)
		s = up.readStream(events)
	} else {
		s = up.readBody(body)
	}
	r := Response{Pieces: s.Pieces, Stop: s.Stop, Match: s.Match, Usage: s.Usage, options: options{true, true}, model: h.Model}
	r = client.fitResponse(split(unsealed(r)))
	for i, p := range r.Pieces {
		if p.Kind == kindCall && !anthropicID.MatchString(p.ID) {
			r.Pieces[i].ID = fmt.Sprintf("call_minted%d", g.minted.Add(1))
		}
	}
	if g.harm != nil {
		g.harm(&h.Request, &r)
	}
	if broken != nil || !s.Ended && s.Err == nil {
		s.Err = &APIError{Kind: "server", Status: 502, Message: "the upstream broke off"}
	}
	switch {
	case s.Err != nil && h.Stream:
		stream(w, in, framing{dialect: in}.chunks(client.writeStreamError(*s.Err, r)))
	case s.Err != nil:
		g.fail(w, client, *s.Err)
	case h.Stream:
		stream(w, in, framing{dialect: in}.chunks(client.writeStream(r)))
	default:
		whole(w, http.StatusOK, "application/json", client.writeBody(r))
	}
}

// split splits texts at the borders of their citations, as Messages does.
func split(r Response) Response {
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

// foreign adapts a request to the dialect of the upstream.
func foreign(a Request, out Dialect) Request {
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
				if p.Failed && out != Anthropic && out != Gemini && out != Converse {
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
		a.Format = &Format{Name: "answer", Schema: a.Format.Schema}
	}
	return imagesAside(merged(a, out), out)
}

// reseal moves the signature of a Gemini call to its reasoning.
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

func unsealed(r Response) Response {
	r.Pieces = reseal(r.Pieces)
	return r
}

// merged joins adjacent turns of tools and of the assistant.
func merged(a Request, out Dialect) Request {
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

// imagesAside moves the images of results into a turn of the user for Chat.
func imagesAside(a Request, out Dialect) Request {
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
	r.Target.Models = SelfModels()
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
			if res := r.Run(t.Context(), c, cell); !res.Passed() {
				t.Errorf("%s %s: %q", c.Name, cell, res.Problems)
				if testing.Verbose() {
					t.Log(res.Bytes)
				}
			}
		}
	}
}
