package conform

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// player plays dialogues in one cell after another. It has its own model at the upstream, so
// that several players can use it at once.
type player struct {
	runner *Runner
	model  string // the upstream's name of the model; empty if the gateway has a fixed one
	twice  bool   // each request is sent twice
	both   bool   // each request is sent in both modes
	strict bool   // requests of the upstream's own dialect are judged like translated ones
}

// played is a dialogue in a cell with its failures.
type played struct {
	findings  findings
	bytes     string
	exchanges int
}

// play runs a dialogue in a cell.
func (y *player) play(ctx context.Context, d dialogue, cell Cell) played {
	cs := d.clientOf(cell.Client).toCase(y.model)
	p := &caseRun{runner: y.runner, cs: cs, cell: cell, lost: map[string]bool{}, made: map[int]bool{}}
	var out played
	var before []byte
	for n, rd := range cs.rounds {
		found := y.round(ctx, p, rd, &out)
		out.bytes += p.last.dump() + "\n"
		if len(p.last.upstream) == 1 && (y.strict || !cell.Same()) && len(found) == 0 {
			if n > 0 {
				checkPrefix(&found, cell.Upstream, before, p.last.upstream[0].body)
			}
			before = p.last.upstream[0].body
		}
		out.findings = append(out.findings, found...)
		if len(found) > 0 || len(p.last.upstream) != 1 {
			break
		}
	}
	return out
}

// send sends a body and waits for the response.
func (y *player) send(ctx context.Context, p *caseRun, rd *round, cell Cell, body []byte, out *played) *exchange {
	up := y.runner.Upstream
	respond := func(w http.ResponseWriter, r *upstreamRequest) { y.respond(p, rd, w, r) }
	out.exchanges++
	if y.model == "" {
		up.expect(respond)
		x := y.runner.Target.post(ctx, y.runner.client, cell, p.cs, body)
		x.upstream = up.requests()
		return x
	}
	up.expectModel(y.model, respond)
	x := y.runner.Target.post(ctx, y.runner.client, cell, p.cs, body)
	x.upstream = up.requestsOf(y.model)
	return x
}

// respond writes the upstream's response. It calls tools by the names that the upstream got.
func (y *player) respond(p *caseRun, rd *round, w http.ResponseWriter, r *upstreamRequest) {
	answer := *rd.response
	answer.Pieces = slices.Clone(answer.Pieces)
	tools := p.request.Tools
	for i := range answer.Pieces {
		at := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == answer.Pieces[i].Name })
		if at >= 0 && at < len(r.parsed.Tools) {
			answer.Pieces[i].Name = r.parsed.Tools[at].Name
		}
	}
	if r.parsed.Choices == "" {
		answer.others = nil
	}
	v := codecOf(r.dialect)
	reply := withoutSeals(v.fitResponse(answer), r)
	reply.Pieces = ownIDs(r.dialect, reply.Pieces)
	reply.options, reply.model = r.parsed.options, r.parsed.Model
	if r.parsed.Stream {
		events := v.writeStream(reply)
		r.reply = bytes.Join(framing{dialect: r.dialect}.chunks(events), nil)
		p.cs.send(w, r.dialect, events)
		return
	}
	r.reply = v.writeBody(reply)
	whole(w, http.StatusOK, "application/json", r.reply)
}

// withoutSeals removes the seals that a Responses upstream sends only on request.
func withoutSeals(r Response, to *upstreamRequest) Response {
	if to.dialect == Responses && !to.parsed.options.sealed {
		r.Pieces = filterPieces(r.Pieces, func(q *Piece) bool {
			q.Sig = ""
			return !q.Redacted
		})
	}
	return r
}

// round runs one round and judges it.
func (y *player) round(ctx context.Context, p *caseRun, rd *round, out *played) findings {
	body := p.prepare(rd)
	p.last = y.send(ctx, p, rd, p.cell, body, out)
	var found findings
	x := p.last
	switch {
	case x.broken != nil:
		found.add(oracleStatus, "the transfer broke off", "%v", x.broken)
		return found
	case x.status >= 400 && x.status < 500:
		return y.judgeRefusal(p, x)
	case x.status != http.StatusOK:
		found.add(oracleStatus, fmt.Sprint(x.status), "status %d: %.300s", x.status, x.body)
		return found
	case len(x.upstream) != 1 || x.upstream[0].dialect != p.cell.Upstream:
		found.add(oracleStatus, "not one upstream request", "%d upstream requests", len(x.upstream))
		return found
	}
	r := x.upstream[0]
	found = append(found, y.judgeRequest(p, x, r)...)
	want := y.wanted(p, rd, r)
	seen, bad := p.read(x, want)
	p.received = seen
	oracle := oracleReply
	if p.cell.Stream {
		oracle = oracleGrammar
	}
	for _, s := range bad {
		if strings.Contains(s, "LIF-15") {
			found.add(oracleSecret, stable(s), "%s", s)
		} else {
			found.add(oracle, stable(s), "%s", s)
		}
	}
	found = append(found, judgeLosses(strictResponse(want, seen, p.cell), sideResponse, p.cell, x, p.lost)...)
	if y.strict || !p.cell.Same() {
		found = append(found, judgeReport(p, *rd.response)...)
	}
	if len(found) > 0 {
		return found
	}
	return y.repeat(ctx, p, rd, body, seen, out)
}

// wanted returns the expected response of the client. It sets the response that was sent.
func (y *player) wanted(p *caseRun, rd *round, r *upstreamRequest) Response {
	want := withoutSeals(p.expected(rd), r)
	want.Pieces = ownIDs(r.dialect, want.Pieces)
	for _, c := range want.calls() {
		p.made[c.number] = true
	}
	p.sent = want
	if p.request.Choices == "" {
		want.others = nil
	}
	return want
}

// judgeRequest judges the upstream request.
func (y *player) judgeRequest(p *caseRun, x *exchange, r *upstreamRequest) findings {
	var found findings
	if key := p.runner.Target.Key; key != "" && !p.runner.Target.Direct {
		for name, values := range r.header {
			if strings.Contains(strings.Join(values, " "), key) {
				found.add(oracleSecret, "the client's key", "the client's key is in %s", name)
			}
		}
	}
	if p.cell.Same() && !y.strict {
		want := bytes.Replace(x.sent, encode(p.runner.Target.model(p.cell, p.cs)), encode(r.parsed.Model), 1)
		if !bytes.Equal(want, r.body) {
			found.add(oracleSame, "bytes", "the upstream got %.300s", r.body)
		}
		return found
	}
	found.problems(oracleLegal, r.parsed.Problems)
	got := r.parsed
	got.Turns = renamed(got.Turns, got.Tools, p.request.Tools)
	for i, t := range got.Tools {
		if t.Name == got.Choice && i < len(p.request.Tools) {
			got.Choice = p.request.Tools[i].Name
			break
		}
	}
	want := p.wantRequest
	if want.TopP == "1" && got.TopP == "" {
		got.TopP = "1" // the default
	}
	if want.Temperature == "1" && got.Temperature == "" && p.cell.Upstream == Anthropic {
		got.Temperature = "1"
	}
	list := documentsAsText(&want, p.cell)
	if p.cell.Client == Gemini || p.cell.Upstream == Gemini { // an empty object is the same as nothing
		want.Turns, got.Turns = nothing(want.Turns), nothing(got.Turns)
	}
	list = append(list, y.compareOwn(p, got)...)
	for _, d := range compareRequest(want, got, p.cell) {
		if d.feature == "format" && got.Format == nil {
			d.feature = "format-gone"
		}
		if d.feature != "turns" { // compareExact is stricter
			list = append(list, d)
		}
	}
	for _, d := range compareExact(want, got, p.cell) {
		if !slices.ContainsFunc(list, func(o diff) bool { return o.feature == d.feature }) {
			list = append(list, d)
		}
	}
	return append(found, judgeLosses(list, sideRequest, p.cell, x, p.lost)...)
}

// compareOwn checks that the upstream gets back the ids of its own calls, and notes that it
// does not get the reasoning of others.
func (y *player) compareOwn(p *caseRun, got Received) diffs {
	var d diffs
	thoughts := 0
	for _, t := range p.request.Turns {
		if t.echo == nil {
			thoughts += len(ofKind(t.Pieces, kindThink))
		}
	}
	d.addIf(thoughts > 0 && !p.cell.Same(), "history-think", "%d blocks of another vendor's reasoning are left out", thoughts)
	have := ofFlat(flatten(got.Turns), kindCall)
	for i, w := range ofFlat(flatten(p.wantRequest.Turns), kindCall) {
		if i < len(have) && p.cell.Upstream != Gemini && p.made[w.number] {
			d.addIf(w.ID != have[i].ID, "call-id", "the upstream's call %q comes back as %q", w.ID, have[i].ID)
		}
	}
	return d
}

// ownIDs gives calls the ids that the upstream makes. Some servers of Chat have dots and colons.
func ownIDs(d Dialect, pieces []Piece) []Piece {
	out := named(pieces, d)
	for i, p := range out {
		if d == Chat && p.Kind == kindCall && p.number%3 == 0 {
			out[i].ID = fmt.Sprintf("functions.Read:%d", p.number)
		}
	}
	return out
}

// documentsAsText replaces text files, which Chat does not have, with text.
func documentsAsText(want *Request, c Cell) diffs {
	var d diffs
	if c.Upstream != Chat || c.Client != Anthropic {
		return d
	}
	want.Turns = mapTurns(want.Turns, func(_ string, p *Piece) bool {
		if p.Kind == kindDocument && p.Image.Type == textFile {
			text, _ := base64.StdEncoding.DecodeString(p.Image.Data) // the dialogue's own
			p.Kind, p.Text = kindText, p.Name+"\n"+string(text)
			d.add("user-document", "the document %s is text", p.Name)
		}
		return true
	})
	return d
}

// nothing replaces empty objects in results.
func nothing(turns []Turn) []Turn {
	return mapTurns(turns, func(_ string, p *Piece) bool {
		if p.Kind == kindResult && strings.TrimSpace(p.Text) == "{}" {
			p.Text = ""
		}
		return true
	})
}

// renamed gives calls the names that the client's tools have.
func renamed(turns []Turn, theirs, ours []Tool) []Turn {
	return mapTurns(turns, func(_ string, p *Piece) bool {
		for i := range min(len(theirs), len(ours)) {
			if p.Kind == kindCall && p.Name == theirs[i].Name {
				p.Name = ours[i].Name
				break
			}
		}
		return true
	})
}

// judgeRefusal judges a 4xx. The table must have it, it must name the field, and the upstream
// must not have been called.
func (y *player) judgeRefusal(p *caseRun, x *exchange) findings {
	var found findings
	got, err := codecOf(p.cell.Client).readError(x.status, x.body)
	if err != nil {
		found.add(oracleRefused, "not the dialect's error", "status %d: %v", x.status, err)
		return found
	}
	if len(x.upstream) > 0 {
		found.add(oracleRefused, "after an upstream request", "status %d: %s", x.status, got.Message)
		return found
	}
	text := got.Message + " " + got.detail
	for _, r := range refusals {
		if r.cells.has(p.cell) && r.is(p.request) && slices.Contains(codesOf(x), r.code) && strings.Contains(text, r.word) {
			return nil
		}
	}
	what := stable(got.Message)
	if m := codeInText.FindStringSubmatch(got.Message); m != nil {
		what = m[1]
	}
	found.add(oracleRefused, what, "status %d: %s", x.status, text)
	return found
}

// codeInText is the loss code in the message of a refusal.
var codeInText = regexp.MustCompile(`\(([a-z_]+\.[a-z_]+)\)`)

// repeat sends the request again, and in the other mode.
func (y *player) repeat(ctx context.Context, p *caseRun, rd *round, body []byte, seen Reading, out *played) findings {
	var found findings
	if y.twice {
		x := y.send(ctx, p, rd, p.cell, body, out)
		if len(x.upstream) != 1 || !bytes.Equal(x.upstream[0].body, p.last.upstream[0].body) {
			found.add(oracleBytes, "another request", "the second request differs: %s", x.dump())
		}
	}
	if y.both {
		other := p.cell
		other.Stream = !other.Stream
		v := codecOf(p.cell.Client)
		x := y.send(ctx, p, rd, other, v.writeRequest(p.request, p.runner.Target.model(p.cell, p.cs), other.Stream), out)
		if x.status != http.StatusOK || x.broken != nil {
			found.add(oracleStream, "status", "status %d in the other mode: %.300s", x.status, x.body)
			return found
		}
		q := *p
		q.cell = other
		again, bad := q.read(x, Response{})
		oracle := oracleReply
		if other.Stream {
			oracle = oracleGrammar
		}
		found.problems(oracle, bad)
		for _, d := range compareModes(seen, again, p.cell) {
			found.add(oracleStream, d.feature, "%s", d.text)
		}
		if len(found) > 0 {
			p.last = x
		}
	}
	return found
}

// checkPrefix checks that the turns of a request begin with those of the one before.
func checkPrefix(found *findings, d Dialect, before, after []byte) {
	member := map[Dialect]string{Chat: "messages", Anthropic: "messages", Responses: "input", Gemini: "contents", Converse: "messages"}[d]
	var a, b map[string]json.RawMessage
	var x, y []json.RawMessage
	if json.Unmarshal(before, &a) != nil || json.Unmarshal(after, &b) != nil || json.Unmarshal(a[member], &x) != nil || json.Unmarshal(b[member], &y) != nil {
		return
	}
	for i := range x {
		if i >= len(y) || !bytes.Equal(x[i], y[i]) {
			now := "nothing"
			if i < len(y) {
				now = string(y[i])
			}
			found.add(oraclePrefix, member, "%s[%d] was %.300s and is %.300s", member, i, x[i], now)
			return
		}
	}
	for _, name := range []string{"system", "instructions", "systemInstruction", "tools", "toolConfig"} {
		if !bytes.Equal(a[name], b[name]) {
			found.add(oraclePrefix, name, "%s was %.200s and is %.200s", name, a[name], b[name])
		}
	}
}
