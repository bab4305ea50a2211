package conform

import (
	"slices"
	"strings"
	"testing"
)

// TestHarmIsNoticed breaks one behaviour of the ideal gateway at a time and expects the case
// about it to fail.
func TestHarmIsNoticed(t *testing.T) {
	cases, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []struct {
		name, in, problem string
		harm              func(*Request, *Response)
	}{
		{"system text is dropped", "system-in-the-middle", "system text", func(a *Request, _ *Response) {
			a.Turns = slices.DeleteFunc(slices.Clone(a.Turns), func(t Turn) bool { return t.Role == "system" })
		}},
		{"system text becomes the assistant's", "system-in-the-middle", "another's", func(a *Request, _ *Response) {
			for i := range a.Turns {
				if i > 1 && a.Turns[i].Role == "system" {
					a.Turns[i].Role = "assistant"
				}
			}
		}},
		{"turns change places", "system-in-the-middle", "elsewhere", func(a *Request, _ *Response) {
			n := len(a.Turns)
			a.Turns[n-1], a.Turns[n-2] = a.Turns[n-2], a.Turns[n-1]
		}},
		{"the last call is dropped", "parallel-tools", "2 calls, want 3", func(_ *Request, r *Response) {
			if n := len(r.Pieces); n > 0 {
				r.Pieces = r.Pieces[:n-1]
			}
		}},
		{"numbers pass through a float", "parallel-tools", "has arguments", func(_ *Request, r *Response) {
			for i := range r.Pieces {
				r.Pieces[i].Args = strings.ReplaceAll(r.Pieces[i].Args, "2.50", "2.5")
			}
		}},
		{"results are crossed", "tool-results", "a result says", func(a *Request, _ *Response) {
			for _, t := range a.Turns {
				if t.Role == "tool" && len(t.Pieces) > 1 {
					t.Pieces[0].Text, t.Pieces[1].Text = t.Pieces[1].Text, t.Pieces[0].Text
				}
			}
		}},
		{"an image is dropped", "tool-results", "image", func(a *Request, _ *Response) {
			for _, t := range a.Turns {
				for i := range t.Pieces {
					t.Pieces[i].Images = nil
				}
			}
		}},
		{"the seal is changed", "reasoning-and-signature", "sealed", func(a *Request, _ *Response) {
			for _, t := range a.Turns {
				for i := range t.Pieces {
					if t.Pieces[i].Sig != "" {
						t.Pieces[i].Sig += "="
					}
				}
			}
		}},
		{"a cut answer ends normally", "length-cut", "the stop is", func(_ *Request, r *Response) { r.Stop = "end" }},
		{"a refusal ends normally", "situations/filtered", "the stop is", func(_ *Request, r *Response) { r.Stop = "end" }},
		{"cached tokens are counted twice", "cached-usage", "usage is", func(_ *Request, r *Response) {
			if r.Usage != nil {
				r.Usage.In += r.Usage.Cached
			}
		}},
		{"the schema loses a keyword", "structured-output", "the schema lost", func(a *Request, _ *Response) {
			if a.Format != nil {
				a.Format = &Format{Name: a.Format.Name, Schema: strings.Replace(a.Format.Schema, `"additionalProperties":false,`, "", 1)}
			}
		}},
		{"stop sequences are dropped", "stop-sequences", "stop sequences are", func(a *Request, _ *Response) { a.Stop = nil }},
		{"the end of a text is lost", "plain-text", "text is", func(_ *Request, r *Response) {
			for i := range r.Pieces {
				r.Pieces[i].Text = strings.TrimSuffix(r.Pieces[i].Text, "ß")
			}
		}},
		{"citations are dropped", "citations", "citations are", func(_ *Request, r *Response) {
			for i := range r.Pieces {
				r.Pieces[i].Cites = nil
			}
		}},
	} {
		t.Run(h.name, func(t *testing.T) {
			r := through(t, &ideal{harm: h.harm})
			c := find(t, cases, h.in)
			cell := Cell{Responses, Anthropic, true}
			switch h.in {
			case "stop-sequences":
				cell.Client = Chat
			case "structured-output": // Messages may do it in another way
				cell.Upstream = Gemini
			}
			res := r.Run(t.Context(), c, cell)
			if !strings.Contains(strings.Join(res.Problems, "\n"), h.problem) {
				t.Errorf("%s: %q, want something with %q", cell, res.Problems, h.problem)
			}
		})
	}
}

// TestSilentLossIsNoticed checks that a case fails if the gateway does not report a loss.
func TestSilentLossIsNoticed(t *testing.T) {
	cases, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	r := through(t, &ideal{fidelity: "exact"})
	res := r.Run(t.Context(), find(t, cases, "stop-sequences"), Cell{Chat, Responses, false})
	if len(res.Problems) == 0 || !strings.Contains(res.Problems[0], "lost in silence") {
		t.Errorf("%q", res.Problems)
	}
}

func find(t *testing.T, cases []*Case, name string) *Case {
	t.Helper()
	for _, c := range cases {
		if strings.Contains(c.Name, name) {
			return c
		}
	}
	t.Fatalf("there is no case %s", name)
	return nil
}
