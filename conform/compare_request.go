package conform

import (
	"slices"
	"strings"
)

// compareRequest lists where the upstream request differs from the client request.
func compareRequest(want Request, got Received, c Cell) diffs {
	var d diffs
	compareTurns(&d, want.Turns, got.Turns, c)
	compareTools(&d, want, got, c)
	d.addIf(want.Max != "" && want.Max != got.Max, "max", "the limit is %q, want %q", got.Max, want.Max)
	d.addIf(want.Temperature != got.Temperature, "temperature", "temperature is %q, want %q", got.Temperature, want.Temperature)
	d.addIf(want.TopP != got.TopP, "top_p", "top_p is %q, want %q", got.TopP, want.TopP)
	d.addIf(!slices.Equal(want.Stop, got.Stop), "stop", "stop sequences are %q, want %q", got.Stop, want.Stop)
	compareFormat(&d, want.Format, got.Format)
	d.addIf(want.Reasoning != "" && got.Reasoning == "", "reasoning", "the request has no reasoning setting")
	return d
}

func compareFormat(d *diffs, want, got *Format) {
	switch {
	case want == nil && got == nil:
	case want == nil:
		d.add("format", "a format that the client did not request: %s", got.Schema)
	case got == nil:
		d.add("format", "no structured output")
	default:
		if at := missingInSchema(want.Schema, got.Schema); at != "" {
			d.add("format", "the schema lost %s: %s", at, got.Schema)
		}
		d.addIf(want.Name != "" && got.Name != "" && want.Name != got.Name, "format", "the format is named %q, want %q", got.Name, want.Name)
	}
}

// missingInSchema returns the path of the first keyword that got lacks, or "". It ignores
// the case of types, because Google's older form has upper-case types.
func missingInSchema(want, got string) string {
	w, err1 := parse([]byte(want))
	g, err2 := parse([]byte(got))
	if err1 != nil || err2 != nil {
		return "everything"
	}
	return missing(lowerTypes(w.v), lowerTypes(g.v), "")
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

func compareTools(d *diffs, want Request, got Received, c Cell) {
	choice := want.Choice
	d.addIf(len(want.Tools) != len(got.Tools) && (choice != "none" || len(got.Tools) != 0), "tools", "%d tools, want %d", len(got.Tools), len(want.Tools))
	for i := range min(len(want.Tools), len(got.Tools)) {
		w, g := want.Tools[i], got.Tools[i]
		legal := map[Dialect]bool{Chat: toolName.MatchString(w.Name), Responses: toolName.MatchString(w.Name),
			Anthropic: anthropicToolName.MatchString(w.Name), Gemini: geminiToolName.MatchString(w.Name), Converse: converseToolName.MatchString(w.Name)}[c.Upstream]
		d.addIf(w.Name != g.Name && legal || w.About != g.About, "tools", "tool %d is %s %q, want %s %q", i+1, g.Name, g.About, w.Name, w.About)
		if w.Schema != "" && (g.Schema != "" || !hasNoProperties(w.Schema)) {
			if at := missingInSchema(w.Schema, g.Schema); at != "" {
				d.add("schema", "the schema of %s lost %s: %s", w.Name, at, g.Schema)
			}
		}
	}
	same := choice == got.Choice || choice == "" && got.Choice == "auto" || choice == "auto" && got.Choice == "" ||
		choice == "none" && len(got.Tools) == 0 || len(got.Tools) == 1 && got.Choice == "required" && choice == got.Tools[0].Name
	d.addIf(!same, "choice", "the tool choice is %q, want %q", got.Choice, choice)
	d.addIf(want.Serial && !got.Serial, "serial", "calls may be parallel, but the client said no")
}

// hasNoProperties reports whether a schema has no properties. A gateway may leave out such a
// schema (CRQ-53).
func hasNoProperties(schema string) bool {
	s, _ := parse([]byte(schema))
	return len(s.at("properties").names()) == 0
}

// compareTurns checks that every piece of the conversation arrived, in order and with the
// same role.
func compareTurns(d *diffs, want, got []Turn, c Cell) {
	w, g := flatten(want), flatten(got)
	compareSystem(d, w, g)
	compareOrder(d, w, g)
	compareCalls(d, ofFlat(w, kindCall), ofFlat(g, kindCall))
	compareResults(d, w, g, c)
	compareImages(d, w, g)
	compareThoughts(d, want, got, c)
	if x, y := textOf(w, "assistant"), textOf(g, "assistant"); x != y {
		d.add("turns", "the assistant has said %q, want %q", y, x)
	}
}

// atom is a piece with its role.
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

func textOf(list []atom, role string) string {
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

// compareOrder checks the order of texts and groups of results.
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

// compareResults compares each result with the result that the upstream got for the same call.
func compareResults(d *diffs, want, got []atom, c Cell) {
	calls := ofFlat(got, kindCall)
	numbers := ofFlat(want, kindCall)
	for _, w := range ofFlat(want, kindResult) {
		i := slices.IndexFunc(numbers, func(p Piece) bool { return p.number == w.number })
		if i < 0 || i >= len(calls) {
			continue // compareCalls reports it
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
	flagged := c.Upstream == Anthropic || c.Upstream == Gemini || c.Upstream == Converse
	switch {
	case want.Failed && !flagged:
		if !strings.Contains(got.Text, want.Text) && !strings.Contains(got.Text, lines(want)) {
			d.add("result", "a failed result says %q, want %q", got.Text, want.Text)
		} else if got.Text == want.Text {
			d.add("result-error", "nothing tells a failed result from a good one: %q", got.Text)
		}
	case len(want.Images) > 0 && strings.HasPrefix(got.Text, want.Text):
		// a note about the image may follow the text
	case len(want.Images) > 0 && strings.HasPrefix(got.Text, strings.TrimSpace(want.Text)):
		d.add("result-space", "a result says %q, want %q", got.Text, want.Text)
	case want.Text != got.Text && lines(want) != got.Text && !sameJSON(want.Text, got.Text):
		d.add("result", "a result says %q, want %q", got.Text, want.Text)
	}
	d.addIf(flagged && want.Failed != got.Failed, "result-error", "a result is marked as failed: %v, want %v", got.Failed, want.Failed)
	for _, image := range want.Images {
		there := slices.Contains(got.Images, image) || slices.ContainsFunc(all, func(a atom) bool { return a.Kind == kindImage && a.Image == image })
		d.addIf(!there, "result-image", "the image of a result is gone")
	}
}

// lines returns the texts of a result as lines, which some dialects need.
func lines(p Piece) string { return strings.Join(p.texts(), "\n") }

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

// compareThoughts checks that the upstream receives its own signatures unchanged and on the
// same pieces.
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
