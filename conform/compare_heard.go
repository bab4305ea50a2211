package conform

import (
	"slices"
	"strings"
)

// compareHeard says where the upstream heard something else than the client asked.
func compareHeard(want Ask, got heard, c Cell) diffs {
	var d diffs
	compareTurns(&d, want.Turns, got.Turns, c)
	compareTools(&d, want, got, c)
	if want.Max != "" && want.Max != got.Max {
		d.add("max", "the limit is %q, want %q", got.Max, want.Max)
	}
	if want.Temperature != got.Temperature {
		d.add("temperature", "temperature is %q, want %q", got.Temperature, want.Temperature)
	}
	if want.TopP != got.TopP {
		d.add("top_p", "top_p is %q, want %q", got.TopP, want.TopP)
	}
	if !slices.Equal(want.Stop, got.Stop) {
		d.add("stop", "stop sequences are %q, want %q", got.Stop, want.Stop)
	}
	compareFormat(&d, want.Format, got.Format)
	if want.Reasoning != "" && got.Reasoning == "" {
		d.add("reasoning", "reasoning was not asked for")
	}
	return d
}

func compareFormat(d *diffs, want, got *Format) {
	switch {
	case want == nil && got == nil:
	case want == nil:
		d.add("format", "a format that nobody asked for: %s", got.Schema)
	case got == nil:
		d.add("format", "no structured output")
	default:
		if at := schemaLacks(want.Schema, got.Schema); at != "" {
			d.add("format", "the schema lost %s: %s", at, got.Schema)
		}
		if want.Name != "" && got.Name != "" && want.Name != got.Name {
			d.add("format", "the format is named %q, want %q", got.Name, want.Name)
		}
	}
}

// schemaLacks compares schemas; Google's older form has upper-case types.
func schemaLacks(want, got string) string {
	w, err1 := parse([]byte(want))
	g, err2 := parse([]byte(got))
	if err1 != nil || err2 != nil {
		return "everything"
	}
	return lacking(lowerTypes(w.v), lowerTypes(g.v), "")
}

func lowerTypes(v any) any {
	switch v := v.(type) {
	case object:
		out := object{}
		for k, sub := range v {
			if s, ok := sub.(string); ok && k == "type" {
				sub = strings.ToLower(s)
			}
			out[k] = lowerTypes(sub)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = lowerTypes(v[i])
		}
		return out
	}
	return v
}

func compareTools(d *diffs, want Ask, got heard, c Cell) {
	choice := want.Choice
	if len(want.Tools) != len(got.Tools) && (choice != "none" || len(got.Tools) != 0) {
		d.add("tools", "%d tools, want %d", len(got.Tools), len(want.Tools))
	}
	for i := range min(len(want.Tools), len(got.Tools)) {
		w, g := want.Tools[i], got.Tools[i]
		legal := map[Dialect]bool{Chat: toolName.MatchString(w.Name), Responses: toolName.MatchString(w.Name),
			Anthropic: anthropicToolName.MatchString(w.Name), Gemini: geminiToolName.MatchString(w.Name)}[c.Upstream]
		if w.Name != g.Name && legal || w.About != g.About {
			d.add("tools", "tool %d is %s %q, want %s %q", i+1, g.Name, g.About, w.Name, w.About)
		}
		if w.Schema != "" && (g.Schema != "" || !takesNothing(w.Schema)) {
			if at := schemaLacks(w.Schema, g.Schema); at != "" {
				d.add("schema", "the schema of %s lost %s: %s", w.Name, at, g.Schema)
			}
		}
	}
	same := choice == got.Choice || choice == "" && got.Choice == "auto" || choice == "auto" && got.Choice == "" ||
		choice == "none" && len(got.Tools) == 0 || len(got.Tools) == 1 && got.Choice == "required" && choice == got.Tools[0].Name
	if !same {
		d.add("choice", "the tool choice is %q, want %q", got.Choice, choice)
	}
	if want.Serial && !got.Serial {
		d.add("serial", "calls may be parallel, but the client said no")
	}
}

// takesNothing is a schema without properties, which may as well be left out
// (CRQ-53).
func takesNothing(schema string) bool {
	s, _ := parse([]byte(schema))
	return len(s.at("properties").names()) == 0
}

// compareTurns goes through the conversation piece by piece: every piece that the
// client sent is there, in order and by the same speaker.
func compareTurns(d *diffs, want, got []Turn, c Cell) {
	w, g := flatten(want), flatten(got)
	compareSystem(d, w, g)
	compareOrder(d, w, g)
	compareCalls(d, ofFlat(w, kindCall), ofFlat(g, kindCall))
	compareResults(d, w, g, c)
	compareImages(d, w, g)
	compareThoughts(d, want, got, c)
	if x, y := spoken(w, "assistant"), spoken(g, "assistant"); x != y {
		d.add("turns", "the assistant has said %q, want %q", y, x)
	}
}

// atom is a piece with its speaker.
type atom struct {
	role string
	lead bool // system text before the conversation
	Piece
}

func flatten(turns []Turn) []atom {
	var out []atom
	lead := true
	for _, t := range turns {
		lead = lead && t.Role == "system"
		for _, p := range t.Pieces {
			out = append(out, atom{t.Role, lead, p})
		}
	}
	return out
}

func ofFlat(list []atom, kind string) []Piece {
	var out []Piece
	for _, a := range list {
		if a.Kind == kind {
			out = append(out, a.Piece)
		}
	}
	return out
}

func spoken(list []atom, role string) string {
	s := ""
	for _, a := range list {
		if a.role == role && (a.Kind == kindText || a.Kind == kindRefusal) {
			s += a.Text
		}
	}
	return s
}

func compareSystem(d *diffs, want, got []atom) {
	all := ""
	for _, a := range got {
		if a.role == "system" {
			all += a.Text + "\n"
		}
	}
	at := 0
	for _, a := range want {
		if !a.lead {
			continue
		}
		i := strings.Index(all[at:], a.Text)
		if i < 0 {
			d.add("system", "system text %q is not there as such: %q", a.Text, all)
			return
		}
		at += i + len(a.Text)
	}
}

// compareOrder finds each text and each group of results after the one before.
func compareOrder(d *diffs, want, got []atom) {
	at, rest := 0, ""
	if len(got) > 0 {
		rest = got[0].Text
	}
	next := func() {
		at++
		if at < len(got) {
			rest = got[at].Text
		}
	}
	for _, w := range want {
		if w.lead || w.Kind != kindText && w.Kind != kindResult || w.Kind == kindText && w.Text == "" {
			continue
		}
		for at < len(got) && !matches(w, got[at], rest) {
			next()
		}
		if at == len(got) {
			d.add("turns", "%s of the %s is gone, elsewhere or another's: %.200q", w.Kind, w.role, w.Text)
			return
		}
		if w.Kind == kindResult {
			next()
		} else {
			_, rest, _ = strings.Cut(rest, w.Text)
		}
	}
}

func matches(w, g atom, rest string) bool {
	if w.Kind == kindResult {
		return g.Kind == kindResult
	}
	speaker := g.role == w.role || w.role == "system" && g.role == "user"
	return g.Kind == kindText && speaker && strings.Contains(rest, w.Text)
}

// compareResults pairs by the ids that the upstream got.
func compareResults(d *diffs, want, got []atom, c Cell) {
	calls := ofFlat(got, kindCall)
	numbers := ofFlat(want, kindCall)
	for _, w := range ofFlat(want, kindResult) {
		i := slices.IndexFunc(numbers, func(p Piece) bool { return p.number == w.number })
		if i < 0 || i >= len(calls) {
			continue // the calls themselves differ, which was said
		}
		results := ofFlat(got, kindResult)
		j := slices.IndexFunc(results, func(p Piece) bool { return p.ID == calls[i].ID })
		if j < 0 {
			d.add("result", "call %d (%s) has no result", i+1, calls[i].ID)
			continue
		}
		compareResult(d, w, results[j], got, c)
	}
}

func compareResult(d *diffs, want, got Piece, all []atom, c Cell) {
	flagged := c.Upstream == Anthropic || c.Upstream == Gemini
	switch {
	case want.Failed && !flagged:
		if !strings.Contains(got.Text, want.Text) {
			d.add("result", "a failed result says %q, want %q", got.Text, want.Text)
		} else if got.Text == want.Text {
			d.add("result-error", "nothing tells a failed result from a good one: %q", got.Text)
		}
	case len(want.Images) > 0 && strings.HasPrefix(got.Text, want.Text):
		// a note on where the image went may follow
	case want.Text != got.Text && !sameJSON(want.Text, got.Text):
		d.add("result", "a result says %q, want %q", got.Text, want.Text)
	}
	if flagged && want.Failed != got.Failed {
		d.add("result-error", "a result is marked as failed: %v, want %v", got.Failed, want.Failed)
	}
	for _, image := range want.Images {
		there := slices.Contains(got.Images, image) || slices.ContainsFunc(all, func(a atom) bool { return a.Kind == kindImage && a.Image == image })
		if !there {
			d.add("result-image", "the image of a result is gone")
		}
	}
}

func compareImages(d *diffs, want, got []atom) {
	have := ofFlat(got, kindImage)
	for _, w := range ofFlat(want, kindImage) {
		i := slices.IndexFunc(have, func(p Piece) bool { return p.Image == w.Image })
		if i < 0 {
			d.add("image", "an image of type %s is gone or changed", w.Image.Type)
			continue
		}
		have = have[i+1:]
	}
}

// compareThoughts: what an upstream has sealed comes back to it unchanged and on
// the same piece. Foreign seals mean nothing to it.
func compareThoughts(d *diffs, want, got []Turn, c Cell) {
	if c.Upstream == Chat {
		return
	}
	list := func(turns []Turn) (out []string) {
		for _, t := range turns {
			for _, p := range t.Pieces {
				if t.Role != "assistant" || p.Sig == "" {
					continue
				}
				text := ""
				if p.Kind == kindThink {
					text = p.Text
				}
				out = append(out, p.Kind+" "+text+" sealed by "+p.Sig)
			}
		}
		return out
	}
	if w, g := list(want), list(got); !slices.Equal(w, g) {
		d.add("signature", "sealed pieces are %q, want %q", g, w)
	}
}
