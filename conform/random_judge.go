package conform

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Oracles of random dialogues. A failure has the name of its oracle, a colon and what differs.
const (
	oracleStatus   = "status"   // an error without a reason, or a broken transfer
	oracleRefused  = "refused"  // a refusal that the loss table does not have, names nothing or comes late
	oracleLegal    = "illegal"  // the vendor would refuse the upstream request
	oracleRequest  = "request"  // the upstream request means something else
	oracleReply    = "reply"    // a client of the vendor would refuse the response
	oracleGrammar  = "grammar"  // the stream breaks the dialect's grammar
	oracleResponse = "response" // the client's response means something else
	oracleSilent   = "silent"   // a loss of the table is not reported
	oracleSame     = "verbatim" // a request of the upstream's own dialect is changed
	oracleBytes    = "bytes"    // the same request gives other bytes
	oraclePrefix   = "prefix"   // a turn changes the turns before it
	oracleStream   = "stream"   // the stream differs from the whole response
	oracleLoud     = "loud"     // a loss is reported that the dialogue does not have
	oracleSecret   = "secret"   // the client's key goes upstream, or a cookie goes to the client
)

func oracles() []string {
	return []string{oracleStatus, oracleRefused, oracleLegal, oracleRequest, oracleReply, oracleGrammar, oracleResponse, oracleSilent, oracleSame,
		oracleBytes, oraclePrefix, oracleStream, oracleLoud, oracleSecret}
}

// finding is one failure of a dialogue.
type finding struct {
	kind string // ORACLE: WHAT, without values
	text string
}

type findings []finding

func (f *findings) add(oracle, what, format string, args ...any) {
	*f = append(*f, finding{oracle + ": " + what, fmt.Sprintf(format, args...)})
}

var valuesOf = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?|\{.*|\[[^\]]*\]|\d+|: map\[.*`)

// stable returns a message without its values, so that failures of a kind have the same text.
func stable(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	s = valuesOf.ReplaceAllString(s, "…")
	if len(s) > 90 {
		s = s[:90]
	}
	return strings.TrimSpace(s)
}

// problems adds what a strict reader has rejected.
func (f *findings) problems(oracle string, list []string) {
	for _, s := range list {
		f.add(oracle, stable(s), "%s", s)
	}
}

// compareExact lists where the upstream request differs from the client's in any way that
// compareRequest does not look at.
func compareExact(want Request, got Received, c Cell) diffs {
	var d diffs
	for _, x := range []struct{ feature, want, got string }{
		{"top_k", want.TopK, got.TopK}, {"seed", want.Seed, got.Seed}, {"n", want.Choices, got.Choices}, {"user", want.User, got.User},
		{"frequency_penalty", want.Frequency, got.Frequency}, {"presence_penalty", want.Presence, got.Presence},
	} {
		d.addIf(x.want != x.got, x.feature, "%s is %q, want %q", x.feature, x.got, x.want)
	}
	d.addIf(want.Reasoning != "" && got.Reasoning != "" && want.Reasoning != got.Reasoning, "effort", "the effort is %q, want %q", got.Reasoning, want.Reasoning)
	d.addIf(want.Reasoning == "" && got.Reasoning != "" && got.Reasoning != "none", "reasoning-added", "reasoning is %q, want none", got.Reasoning)
	if f, g := want.Format, got.Format; f != nil && g != nil && c.Client != Gemini && c.Upstream != Gemini {
		d.addIf(f.Strict != g.Strict, "format-strict", "the format is strict: %v, want %v", g.Strict, f.Strict)
	}
	for i := range min(len(want.Tools), len(got.Tools)) {
		w, g := want.Tools[i], got.Tools[i]
		d.addIf(w.Strict != g.Strict, "strict", "the tool %s is strict: %v, want %v", w.Name, g.Strict, w.Strict)
		d.addIf(w.Cache && !g.Cache, "cache", "the tool %s has no cache mark", w.Name)
	}
	compareFlow(&d, want, got.Request, c)
	compareForms(&d, want, got.Request, c)
	return d
}

// compareForms checks what arrives in another form: roles, refusals, names and limits.
func compareForms(d *diffs, want, got Request, c Cell) {
	developers := func(r Request) int {
		return len(slices.DeleteFunc(slices.Clone(r.Turns), func(t Turn) bool { return !t.Developer }))
	}
	if w, g := developers(want), developers(got); w != g {
		d.add("developer", "%d turns of the developer, want %d", g, w)
	}
	folded := slices.ContainsFunc(flatten(got.Turns), func(a atom) bool { return a.Kind == kindText && isFolded(a.role, a.Text) })
	d.addIf(folded, "mid-system", "system text is text of the user")
	w, g := len(ofFlat(flatten(want.Turns), kindRefusal)), len(ofFlat(flatten(got.Turns), kindRefusal))
	d.addIf(w != g && (c.Client == Chat || c.Client == Responses), "refusal", "%d refusals, want %d", g, w)
	d.addIf(want.Max == "" && got.Max != "", "max-added", "the limit is %s, want none", got.Max)
	d.addIf(want.Format != nil && got.Format != nil && want.Format.Name != "" && got.Format.Name == "", "format-name", "the format has no name")
}

// isFolded reports whether a text of the user is system text.
func isFolded(role, text string) bool {
	return role == "user" && strings.HasPrefix(text, systemOpen) && strings.HasSuffix(text, systemClose)
}

// compareFlow checks that the conversation has the same parts in the same order, and no others.
func compareFlow(d *diffs, want, got Request, c Cell) {
	var system, have []string
	for _, t := range want.Turns {
		if t.Role != "system" {
			break
		}
		system = append(system, joined(t.Pieces, kindText))
	}
	for _, t := range got.Turns {
		if t.Role != "system" {
			break
		}
		have = append(have, joined(t.Pieces, kindText))
	}
	if w, g := strings.Join(system, ""), strings.Join(have, ""); noSpace(w) != noSpace(g) {
		d.add("system", "system text is %q, want %q", have, system)
	}
	turns := want.Turns[len(system):]
	if c.Upstream == Anthropic || c.Upstream == Converse {
		var blank int
		if c.Client == Gemini {
			turns = usersJoined(turns)
		}
		turns, blank = withoutBlank(turns)
		d.addIf(blank > 0, "blank", "%d blank texts beside media are left out", blank)
	}
	w, g := flow(turns, want.Turns), flow(got.Turns[len(have):], want.Turns)
	for i := range max(len(w), len(g)) {
		a, b := token{}, token{}
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a == b {
			continue
		}
		feature := "order, " + a.role + " " + a.kind + " became " + b.role + " " + b.kind
		if a.role == b.role && a.kind == b.kind {
			feature = a.role + "-" + a.kind
		}
		if a.kind == kindDocument || b.kind == kindDocument {
			feature = "user-document"
		}
		d.add(feature, "part %d is %s %s %.200q, want %s %s %.200q", i+1, b.role, b.kind, b.body, a.role, a.kind, a.body)
		break
	}
	compareMarks(d, want, got, c)
}

// usersJoined joins adjacent turns of the user, as a client of Gemini sends them.
func usersJoined(turns []Turn) []Turn {
	var out []Turn
	for _, t := range turns {
		if n := len(out); n > 0 && t.Role == "user" && out[n-1].Role == "user" {
			out[n-1].Pieces = slices.Concat(out[n-1].Pieces, t.Pieces)
			continue
		}
		out = append(out, t)
	}
	return out
}

// withoutBlank removes blank texts of the user from turns that have no other text. It returns
// their number.
func withoutBlank(turns []Turn) (out []Turn, removed int) {
	out = slices.Clone(turns)
	for i, t := range out {
		if t.Role != "user" {
			continue
		}
		var kept []Piece
		for from := 0; from < len(t.Pieces); {
			to := from + 1
			for to < len(t.Pieces) && t.Pieces[from].Kind == kindText && t.Pieces[to].Kind == kindText {
				to++
			}
			if run := t.Pieces[from:to]; run[0].Kind == kindText && strings.TrimSpace(joined(run, kindText)) == "" {
				removed++
			} else {
				kept = append(kept, run...)
			}
			from = to
		}
		out[i].Pieces = kept
	}
	return out, removed
}

func noSpace(s string) string { return strings.Join(strings.Fields(s), "") }

// token is a part of a conversation in comparable form.
type token struct{ role, kind, body string }

const (
	systemOpen  = "<system>"
	systemClose = "</system>"

	besideDocument = "(See the document.)" // Converse demands a text
)

// flow returns the conversation as tokens. Adjacent texts of a role are one. Results are
// compared elsewhere, so they count only as a group. Images that moved out of results are
// left out.
func flow(turns, want []Turn) []token {
	moved := map[Image]bool{}
	for _, t := range want {
		for _, p := range t.Pieces {
			for _, i := range p.Images {
				moved[i] = true
			}
		}
	}
	var out []token
	add := func(x token) {
		n := len(out)
		switch {
		case n > 0 && x.kind == kindText && out[n-1].role == x.role && out[n-1].kind == kindText:
			out[n-1].body += x.body
		case n > 0 && x.kind == kindResult && out[n-1].kind == kindResult:
		default:
			out = append(out, x)
		}
	}
	for _, t := range turns {
		for _, p := range t.Pieces {
			x := token{t.Role, p.Kind, p.Text}
			switch p.Kind {
			case kindThink:
				continue
			case kindRefusal:
				x.kind = kindText
			case kindCall:
				x.body = ""
			case kindResult:
				x.body = ""
			case kindImage, kindDocument:
				if moved[p.Image] {
					continue
				}
				x.body = p.Image.Type + " " + p.Image.Data
			case kindText:
				if len(moved) > 0 && (strings.HasPrefix(p.Text, "Attachment(s) of ") || strings.HasPrefix(p.Text, "from the call of ")) {
					continue
				}
				if p.Text == besideDocument {
					continue
				}
				if isFolded(t.Role, p.Text) {
					x.role, x.body = "system", strings.TrimSuffix(strings.TrimPrefix(p.Text, systemOpen), systemClose)
				}
			}
			add(x)
		}
	}
	return out
}

// compareMarks checks cache marks, and that the loss of reasoning in the history is known.
func compareMarks(d *diffs, want, got Request, c Cell) {
	count := func(r Request, is func(Piece) bool) int {
		n := 0
		for _, t := range r.Turns {
			for _, p := range t.Pieces {
				if is(p) {
					n++
				}
			}
		}
		return n
	}
	marked := func(p Piece) bool { return p.Cache }
	marks := c.Upstream == Anthropic || c.Upstream == Converse
	if w, g := count(want, marked), count(got, marked); marks && w != g || !marks && w > 0 {
		d.add("cache", "%d cache marks, want %d", g, w)
	}
	named := func(p Piece) bool { return p.Kind == kindDocument && p.Name != "" }
	if w, g := count(want, named), count(got, named); w > g {
		d.add("document-name", "%d documents have a name, want %d", g, w)
	}
}

// strictResponse lists differences of a response that compareResponse does not look at.
func strictResponse(want Response, got Reading, c Cell) diffs {
	d := compareResponse(want, got, c)
	d.addIf(len(want.others) != len(got.others), "choices", "%d choices, want %d", len(got.others)+1, len(want.others)+1)
	for i := range min(len(want.others), len(got.others)) {
		w, g := want.others[i], got.others[i]
		if a, b := joined(w.Pieces, kindText), joined(g.Pieces, kindText); a != b {
			d.add("choices", "choice %d says %q, want %q", i+1, b, a)
		}
	}
	d.addIf(want.has(kindRefusal) && len(ofKind(got.Pieces, kindRefusal)) == 0, "refusal", "the refusal is text")
	if c.Client != Chat && c.Upstream != Chat {
		w, g := ofKind(want.Pieces, kindThink), ofKind(got.Pieces, kindThink)
		d.addIf(len(w) != len(g) && c.Client != Gemini && c.Upstream != Gemini, "think-blocks", "%d blocks of reasoning, want %d", len(g), len(w))
	}
	return d
}

// compareModes lists where a streamed response differs from the whole one.
func compareModes(a, b Reading, c Cell) diffs {
	var d diffs
	for _, k := range []string{kindText, kindThink, kindRefusal} {
		if x, y := joined(a.Pieces, k), joined(b.Pieces, k); x != y {
			d.add(k, "%s is %.200q in one mode, %.200q in the other", k, x, y)
		}
	}
	compareCalls(&d, a.calls(), b.calls())
	d = slices.DeleteFunc(d, func(x diff) bool { return x.feature == "half" }) // arguments of a stream are text
	d.addIf(a.Stop != b.Stop || a.Match != b.Match, "stop", "the stop is %s %q and %s %q", a.Stop, a.Match, b.Stop, b.Match)
	d.addIf(len(sigs(a.Pieces)) != len(sigs(b.Pieces)) && c.Upstream != Chat, "signature", "%d and %d signatures", len(sigs(a.Pieces)), len(sigs(b.Pieces)))
	d.addIf(kinds(a.Pieces) != kinds(b.Pieces) && c.Client != Chat && c.Upstream != Chat, "order", "the order is %s and %s", kinds(a.Pieces), kinds(b.Pieces))
	if a.Usage != nil && b.Usage != nil {
		d.addIf(*a.Usage != *b.Usage, "usage", "the usage is %v and %v", *a.Usage, *b.Usage)
	}
	d.addIf((a.Usage == nil) != (b.Usage == nil), "usage", "one mode has no usage")
	d.addIf(len(a.others) != len(b.others), "choices", "%d and %d choices", len(a.others)+1, len(b.others)+1)
	return d
}

// codesOf returns the loss codes of the header Isogloss-Fidelity.
func codesOf(x *exchange) []string {
	all := strings.Join(x.header.Values("Isogloss-Fidelity"), ";")
	var out []string
	for _, m := range codeList.FindAllStringSubmatch(all, -1) {
		out = append(out, strings.Fields(m[1])...)
	}
	return out
}

var codeList = regexp.MustCompile(`codes="([^"]*)"`)

// judgeReport finds reported codes that no difference explains.
func judgeReport(p *caseRun, answer Response) findings {
	var out findings
	c, x := p.cell, p.last
	noted := func(code string) bool {
		return slices.ContainsFunc(notes, func(n note) bool {
			return slices.Contains(n.codes, code) && (n.is(p.request, answer) || n.is(p.wantRequest, answer))
		})
	}
	for _, code := range codesOf(x) {
		explained := slices.ContainsFunc(losses, func(l loss) bool {
			return slices.Contains(l.codes, code) && l.cells.has(c) && slices.ContainsFunc(l.features, func(f string) bool { return p.lost[f] })
		})
		if !explained && !noted(code) {
			out.add(oracleLoud, code, "the gateway reports %s, but nothing of the kind is lost (fidelity %q)", code, x.header.Get("Isogloss-Fidelity"))
		}
	}
	return out
}

// judgeLosses turns differences into findings. A loss of the table is none if it is reported.
// The header of a stream is sent before its response is known.
func judgeLosses(list diffs, side string, c Cell, x *exchange, lost map[string]bool) findings {
	var out findings
	codes := codesOf(x)
	for _, d := range list {
		rows := lossesOf(side, d.feature, c)
		reported := slices.ContainsFunc(rows, func(l loss) bool {
			return len(l.codes) == 0 || slices.ContainsFunc(l.codes, func(code string) bool { return slices.Contains(codes, code) })
		})
		switch {
		case len(rows) == 0:
			out.add(map[string]string{sideRequest: oracleRequest, sideResponse: oracleResponse}[side], d.feature, "%s", d.text)
		case reported || lost[d.feature] || side == sideResponse && c.Stream:
			lost[d.feature] = true
		default:
			out.add(oracleSilent, d.feature, "%s (fidelity %q)", d.text, x.header.Get("Isogloss-Fidelity"))
		}
	}
	return out
}
