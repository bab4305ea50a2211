package conform

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// dialogue is a random conversation of one or more rounds.
type dialogue struct {
	settings Request // without turns
	rounds   []talk
	frame    framing
}

// talk is what the client adds to the conversation, and the upstream's response.
type talk struct {
	turns  []Turn
	answer Response
}

// maker makes a dialogue.
type maker struct {
	dice
	out    dialogue
	calls  int   // the number of calls so far
	open   []int // calls without a result
	caches int
	ids    map[int]string // of calls in the history that have one
}

// newDialogue returns the dialogue of a seed and an index.
func newDialogue(seed, index uint64) dialogue {
	m := &maker{dice: newDice(seed, index), ids: map[int]string{}}
	m.tools()
	m.settings()
	rounds := 1 + m.IntN(3)
	for i := range rounds {
		var t talk
		if i == 0 {
			t.turns = m.opening()
		} else {
			t.turns = m.next()
		}
		t.answer = m.answer()
		m.out.rounds = append(m.out.rounds, t)
	}
	m.frame()
	m.out.distinguish(newDice(seed, ^index).word())
	return m.out
}

// distinguish adds a word to the first text of the user. A gateway that stores reasoning for clients
// cannot tell two conversations of one client apart that are equal in every byte.
func (d *dialogue) distinguish(word string) {
	for _, t := range d.rounds[0].turns {
		for i := range t.Pieces {
			if p := &t.Pieces[i]; t.Role == "user" && p.Kind == kindText && strings.TrimSpace(p.Text) != "" {
				p.Text += " " + word
				return
			}
		}
	}
}

func (m *maker) frame() {
	f := &m.out.frame
	for _, name := range []string{"crlf", "nospace", "comments", "fields", "colon"} {
		if m.chance(10) {
			f.names = append(f.names, name)
		}
	}
	switch m.IntN(4) {
	case 0:
		f.cut = -1
	case 1:
		for range 3 {
			f.cuts = append(f.cuts, 1+m.IntN(300))
		}
	}
}

// oddNames are names of tools. clientOf makes them valid in the client's dialect.
var oddNames = []string{"read_file", "Bash", "mcp__server__tool", "get-weather", "a", "tool.with.dots", "ns:name", "_private", "9lives",
	"functions.Read", strings.Repeat("long_name_", 7), "CamelCase"}

func (m *maker) tools() {
	if m.chance(4) {
		return
	}
	for range 1 + m.IntN(4) {
		t := Tool{Name: pick(m.dice, oddNames), About: m.text(), Strict: m.chance(4)}
		if slices.ContainsFunc(m.out.settings.Tools, func(o Tool) bool { return o.Name == t.Name }) {
			continue
		}
		if !m.chance(8) {
			t.Schema = string(encode(m.schema(3, t.Strict && !m.chance(3))))
		}
		t.Cache = m.cache(8)
		m.out.settings.Tools = append(m.out.settings.Tools, t)
	}
}

// cache decides about a cache mark. Messages has at most four.
func (m *maker) cache(n int) bool {
	if m.caches >= 3 || !m.chance(n) {
		return false
	}
	m.caches++
	return true
}

func (m *maker) settings() {
	s := &m.out.settings
	if len(s.Tools) > 0 && m.chance(3) {
		s.Choice = pick(m.dice, []string{"auto", "none", "required", s.Tools[0].Name})
	}
	s.Serial = len(s.Tools) > 0 && m.chance(6)
	maybe := func(to *string, n int, values ...string) {
		if m.chance(n) {
			*to = pick(m.dice, values)
		}
	}
	maybe(&s.Max, 2, "16", "100", "4096", "32000")
	maybe(&s.Temperature, 4, "0", "0.7", "1", "1.5", "2")
	maybe(&s.TopP, 6, "0.1", "0.95", "1")
	maybe(&s.TopK, 8, "1", "40")
	maybe(&s.Seed, 8, "0", "7", "2147483647", "4294967296")
	maybe(&s.Frequency, 10, "0.5", "-1.5")
	maybe(&s.Presence, 10, "0.25", "2")
	maybe(&s.Reasoning, 4, "minimal", "low", "medium", "high", "xhigh")
	maybe(&s.Choices, 15, "2", "3")
	maybe(&s.User, 6, "user-1", "user_"+strings.Repeat("0a1b2c3d", 16)+"_account__session_1")
	if m.chance(5) {
		s.Stop = append(s.Stop, "END")
		for len(s.Stop) < 4 && m.chance(2) {
			s.Stop = append(s.Stop, pick(m.dice, []string{"\n", "###", "stöp", "</x>"})+strconv.Itoa(len(s.Stop)))
		}
	}
	if m.chance(8) {
		closed := !m.chance(3)
		s.Format = &Format{Name: "answer", Schema: string(encode(m.schema(3, closed))), Strict: closed && !m.chance(3)}
	}
}

// opening returns the turns of the first request: system text, a history and a question.
func (m *maker) opening() []Turn {
	var out []Turn
	for m.chance(2) && len(out) < 3 {
		out = append(out, Turn{Role: "system", Developer: m.chance(4), Pieces: []Piece{{Kind: kindText, Text: m.text(), Cache: m.cache(6)}}})
	}
	out = append(out, m.user())
	for m.chance(2) {
		out = append(out, m.assistant())
		if len(m.open) > 0 {
			out = append(out, m.results())
			if m.chance(2) {
				continue
			}
		}
		out = append(out, m.question()...)
	}
	if last := out[len(out)-1].Role; last == "assistant" {
		out = append(out, m.user())
	}
	return out
}

// next returns the turns after a response.
func (m *maker) next() []Turn {
	if len(m.open) == 0 {
		return m.question()
	}
	out := []Turn{m.results()}
	if m.chance(3) {
		out = append(out, m.question()...)
	}
	return out
}

// question returns a turn of the user, sometimes after system text.
func (m *maker) question() []Turn {
	var out []Turn
	if m.chance(8) {
		out = append(out, Turn{Role: "system", Developer: m.chance(2), Pieces: []Piece{{Kind: kindText, Text: m.text()}}})
	}
	if m.chance(12) {
		out = append(out, m.user())
	}
	return append(out, m.user())
}

func (m *maker) user() Turn {
	t := Turn{Role: "user", Pieces: []Piece{{Kind: kindText, Text: m.text()}}}
	for m.chance(3) {
		p := Piece{Kind: kindText, Text: m.text()}
		switch m.IntN(6) {
		case 0:
			p = Piece{Kind: kindImage, Image: m.picture(m.chance(3))}
		case 1:
			p = m.file()
		case 2:
			p.Text = pick(m.dice, blankTexts)
		}
		p.Cache = m.cache(8)
		t.Pieces = append(t.Pieces, p)
	}
	if m.chance(5) {
		slices.Reverse(t.Pieces)
	}
	return t
}

// assistant returns a turn of the history.
func (m *maker) assistant() Turn {
	t := Turn{Role: "assistant"}
	if m.chance(5) {
		t.Pieces = append(t.Pieces, m.thought())
	}
	made := m.IntN(4)
	if len(m.out.settings.Tools) == 0 || m.chance(3) {
		made = 0
	}
	switch {
	case made == 0 && m.chance(10):
		t.Pieces = append(t.Pieces, Piece{Kind: kindRefusal, Text: m.text()})
	case made == 0 || m.chance(2):
		t.Pieces = append(t.Pieces, Piece{Kind: kindText, Text: m.text(), Cache: m.cache(12)})
	}
	for range made {
		p := m.call()
		if m.chance(6) {
			p.ID = longID(p.number)
			m.ids[p.number] = p.ID
		}
		t.Pieces = append(t.Pieces, p)
	}
	return t
}

// longID returns an id that is longer than OpenAI's in Chat.
func longID(number int) string {
	return fmt.Sprintf("call_%04d_%s", number, strings.Repeat("longid", 8))
}

func (m *maker) thought() Piece {
	p := Piece{Kind: kindThink, Text: m.text(), Sig: m.seal()}
	if m.chance(5) {
		p.Text, p.Redacted = "", true
	}
	return p
}

func (m *maker) call() Piece {
	m.calls++
	m.open = append(m.open, m.calls)
	return Piece{Kind: kindCall, Name: pick(m.dice, m.out.settings.Tools).Name, Args: m.args(), number: m.calls}
}

// results answers all open calls in any order.
func (m *maker) results() Turn {
	t := Turn{Role: "tool"}
	m.Shuffle(len(m.open), func(i, j int) { m.open[i], m.open[j] = m.open[j], m.open[i] })
	for _, n := range m.open {
		p := Piece{ID: m.ids[n], Kind: kindResult, Text: m.text(), number: n, Failed: m.chance(6), Cache: m.cache(12)}
		switch m.IntN(8) {
		case 0:
			p.Text = ""
		case 1:
			p.Text, p.Missing, p.Failed = "", true, false
		case 2:
			p.Images = []Image{m.picture(false)}
		case 3:
			p.Text = m.value(2)
		case 4:
			p.split = true
		}
		t.Pieces = append(t.Pieces, p)
	}
	m.open = nil
	return t
}

// answer returns a response of the upstream.
func (m *maker) answer() Response {
	s := m.out.settings
	r := Response{Stop: "end", interleave: m.chance(3)}
	for range 1 + m.IntN(4) {
		r.grain = append(r.grain, 1+m.IntN(1+m.IntN(40)))
	}
	in, out := 1+m.IntN(5000), 1+m.IntN(900)
	r.Usage = &Usage{In: in, Out: out}
	if m.chance(2) {
		r.Usage.Cached = m.IntN(in)
		r.Usage.Written = m.IntN(in - r.Usage.Cached)
	}
	if m.chance(3) {
		r.Usage.Think = m.IntN(out)
	}
	if m.chance(4) || s.Reasoning != "" && m.chance(2) {
		r.Pieces = append(r.Pieces, m.thought())
		if m.chance(5) {
			r.Pieces = append(r.Pieces, m.thought())
		}
	}
	made := m.IntN(4)
	if len(s.Tools) == 0 || s.Choice == "none" || m.chance(3) {
		made = 0
	}
	if s.Serial {
		made = min(made, 1)
	}
	if made == 0 && m.chance(20) {
		r.Pieces = append(r.Pieces, Piece{Kind: kindRefusal, Text: m.text()})
		r.Stop = "filter"
		m.others(&r)
		return r
	}
	if made == 0 || m.chance(2) {
		r.Pieces = append(r.Pieces, Piece{Kind: kindText, Text: m.text()})
		if m.chance(5) {
			r.Pieces = append(r.Pieces, Piece{Kind: kindText, Text: m.text()})
		}
	}
	for i := range made {
		if i > 0 && m.chance(8) {
			r.interleave = false // only adjacent calls can take turns
			r.Pieces = append(r.Pieces, m.thought())
		}
		r.Pieces = append(r.Pieces, m.call())
	}
	m.stop(&r, made)
	m.others(&r)
	return r
}

func (m *maker) stop(r *Response, made int) {
	s := m.out.settings
	switch {
	case made > 0:
		r.Stop = "tool"
	case m.chance(8):
		r.Stop = pick(m.dice, []string{"length", "filter"})
	case len(s.Stop) > 0 && m.chance(3):
		r.Stop, r.Match = "sequence", s.Stop[0]
	}
}

// others adds the further choices. A vendor sends as many as the request asks for, whatever the first one is.
func (m *maker) others(r *Response) {
	n, _ := strconv.Atoi(m.out.settings.Choices)
	for range n - 1 {
		r.others = append(r.others, Response{Stop: "end", grain: r.grain, Pieces: []Piece{{Kind: kindText, Text: m.text()}}})
	}
}

// clientOf returns the dialogue without what the client's vendor would reject.
func (d dialogue) clientOf(c Dialect) dialogue {
	d = d.clone()
	s := &d.settings
	names := map[string]string{}
	var tools []Tool
	for _, t := range s.Tools {
		name := validName(c, t.Name)
		if names[t.Name] = name; slices.ContainsFunc(tools, func(o Tool) bool { return o.Name == name }) {
			continue
		}
		t.Name = name
		t.Strict = t.Strict && c != Gemini && t.Schema != "" && (isClosed(t.Schema) || c == Anthropic && isShut(t.Schema))
		tools = append(tools, t)
	}
	s.Tools = tools
	if name := names[s.Choice]; name != "" {
		s.Choice = name
	}
	d.eachPiece(func(p *Piece) {
		if p.Kind == kindCall {
			p.Name = validName(c, p.Name)
		}
	})
	s.Serial = s.Serial && s.Choice != "none" && len(tools) > 0
	if len(tools) == 0 {
		s.Choice = ""
	}
	if f := s.Format; f != nil {
		f.Strict = f.Strict && isClosed(f.Schema) || c == Anthropic || c == Converse
		if c == Anthropic && !isShut(f.Schema) {
			s.Format = nil
		}
	}
	switch {
	case c == Anthropic && s.Reasoning == "minimal":
		s.Reasoning = "low"
	case (c == Anthropic || c == Gemini) && s.Reasoning == "xhigh":
		s.Reasoning = "high"
	}
	switch c {
	case Anthropic:
		d.messagesOnly()
	case Converse:
		d.converseOnly()
	case Chat:
		s.User = s.User[:min(len(s.User), 64)]
		d.eachPiece(func(p *Piece) { p.ID = p.ID[:min(len(p.ID), 40)] })
		d.keepPieces(func(_ string, p *Piece) bool { return p.Kind != kindDocument || p.Image.Type == "application/pdf" })
	case Responses:
		s.User = s.User[:min(len(s.User), 64)]
	case Gemini:
		d.eachPiece(func(p *Piece) { p.ID = "" })
		d.systemFirst()
		if len(s.Seed) > 9 {
			s.Seed = "7"
		}
	}
	return d
}

// messagesOnly removes what Messages rejects.
func (d *dialogue) messagesOnly() {
	s := &d.settings
	if t, err := strconv.ParseFloat(s.Temperature, 64); err == nil && t > 1 {
		s.Temperature = "1"
	}
	if s.Reasoning != "" {
		s.Temperature, s.TopP, s.TopK = "", "", ""
		if s.Choice != "auto" && s.Choice != "none" {
			s.Choice = ""
		}
	}
	s.Stop = slices.DeleteFunc(s.Stop, func(x string) bool { return strings.TrimSpace(x) == "" })
	d.keepPieces(func(_ string, p *Piece) bool { return p.Kind != kindText || strings.TrimSpace(p.Text) != "" })
	d.systemFirst()
}

// converseOnly removes what Converse rejects.
func (d *dialogue) converseOnly() {
	s := &d.settings
	if t, err := strconv.ParseFloat(s.Temperature, 64); err == nil && t > 1 {
		s.Temperature = "1"
	}
	if s.Choice == "none" {
		s.Choice = ""
	}
	s.Stop = slices.DeleteFunc(s.Stop, func(x string) bool { return strings.TrimSpace(x) == "" })
	d.eachPiece(func(p *Piece) { p.ID = p.ID[:min(len(p.ID), 64)] })
	d.keepPieces(func(_ string, p *Piece) bool {
		return (p.Kind != kindText || strings.TrimSpace(p.Text) != "") && (p.Kind != kindImage && p.Kind != kindDocument || p.Image.Type != "")
	})
	for i := range d.rounds {
		for j, t := range d.rounds[i].turns {
			if len(ofKind(t.Pieces, kindDocument)) > 0 && len(ofKind(t.Pieces, kindText)) == 0 {
				d.rounds[i].turns[j].Pieces = append(slices.Clone(t.Pieces), Piece{Kind: kindText, Text: "Look."})
			}
		}
	}
	d.systemFirst()
}

// systemFirst makes system text in the conversation text of the user.
func (d *dialogue) systemFirst() {
	for i := range d.rounds {
		talking := i > 0
		for j, t := range d.rounds[i].turns {
			if t.Role == "system" && talking {
				d.rounds[i].turns[j].Role = "user"
			}
			talking = talking || t.Role != "system"
		}
	}
}

func validName(d Dialect, name string) string {
	if d == Chat || d == Responses || d == Anthropic || d == Converse {
		name = strings.NewReplacer(".", "_", ":", "_").Replace(name)
	}
	if d == Chat || d == Responses || d == Converse {
		name = name[:min(len(name), 64)]
	}
	if d == Gemini && name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// isClosed reports whether OpenAI's strict mode accepts a schema: all properties are required
// and no others are allowed.
func isClosed(schema string) bool { return checkSchema(schema, true, nil) }

// isShut reports whether the strict mode of Messages accepts a schema: no other properties are
// allowed, and some keywords are not either.
func isShut(schema string) bool {
	return checkSchema(schema, false, []string{"minimum", "exclusiveMinimum", "maxLength"})
}

func checkSchema(schema string, closed bool, banned []string) bool {
	var v any
	if json.Unmarshal([]byte(schema), &v) != nil {
		return false
	}
	return checkNode(v, closed, banned)
}

func checkNode(v any, closed bool, banned []string) bool {
	o, ok := v.(object)
	if !ok {
		return true
	}
	for _, name := range banned {
		if _, has := o[name]; has {
			return false
		}
	}
	properties, _ := o["properties"].(object)
	if o["type"] == "object" {
		required, _ := o["required"].([]any)
		if o["additionalProperties"] != false || closed && len(required) != len(properties) {
			return false
		}
	}
	for _, p := range properties {
		if !checkNode(p, closed, banned) {
			return false
		}
	}
	return checkNode(o["items"], closed, banned)
}

// toCase returns the dialogue as a case of the runner.
func (d dialogue) toCase(model string) *Case {
	c := &Case{Name: "random", frame: d.frame, headers: nil}
	c.record.upstreamModel = model
	for i, t := range d.rounds {
		a := d.settings
		a.Turns = t.turns
		answer := t.answer
		c.rounds = append(c.rounds, &round{request: &requestLines{Request: a, again: i > 0}, response: &answer})
	}
	return c
}

func (d dialogue) clone() dialogue {
	d.settings.Tools = slices.Clone(d.settings.Tools)
	d.settings.Stop = slices.Clone(d.settings.Stop)
	if f := d.settings.Format; f != nil {
		c := *f
		d.settings.Format = &c
	}
	d.rounds = slices.Clone(d.rounds)
	for i := range d.rounds {
		r := &d.rounds[i]
		r.turns = slices.Clone(r.turns)
		for j := range r.turns {
			r.turns[j].Pieces = slices.Clone(r.turns[j].Pieces)
		}
		r.answer.Pieces = slices.Clone(r.answer.Pieces)
		r.answer.others = slices.Clone(r.answer.others)
		if u := r.answer.Usage; u != nil {
			c := *u
			r.answer.Usage = &c
		}
	}
	return d
}

func (d *dialogue) eachPiece(do func(*Piece)) {
	for i := range d.rounds {
		for _, t := range d.rounds[i].turns {
			for j := range t.Pieces {
				do(&t.Pieces[j])
			}
		}
		for j := range d.rounds[i].answer.Pieces {
			do(&d.rounds[i].answer.Pieces[j])
		}
	}
}

// keepPieces removes pieces of the requests. A turn that becomes empty gets a text.
func (d *dialogue) keepPieces(keep func(role string, p *Piece) bool) {
	for i := range d.rounds {
		for j := range d.rounds[i].turns {
			t := &d.rounds[i].turns[j]
			t.Pieces = filterPieces(t.Pieces, func(p *Piece) bool { return keep(t.Role, p) })
			if len(t.Pieces) == 0 {
				t.Pieces = []Piece{{Kind: kindText, Text: fmt.Sprintf("turn %d", j)}}
			}
		}
	}
}
