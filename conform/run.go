package conform

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Result is the result of one case in one cell.
type Result struct {
	Case     *Case
	Cell     Cell
	Problems []string     // empty if the case passed
	Differs  []Difference // the problems of a recording
	Bytes    string       // all exchanges as text
}

// Passed reports whether the cell has no problems.
func (r Result) Passed() bool { return len(r.Problems) == 0 }

// Runner runs cases against a target.
type Runner struct {
	Target   Target
	Upstream *Upstream
	client   *http.Client
}

// Cells returns the cells of the case that the target serves.
func (r *Runner) Cells(c *Case) []Cell {
	var out []Cell
	for _, client := range Dialects() {
		for _, upstream := range Dialects() {
			for _, stream := range []bool{true, false} {
				cell := Cell{client, upstream, stream}
				if r.Target.Serves(cell) && c.runs(cell) && r.Target.suits(c) {
					out = append(out, cell)
				}
			}
		}
	}
	return out
}

// Run runs a case in one cell.
func (r *Runner) Run(ctx context.Context, c *Case, cell Cell) Result {
	r.dial()
	p := &caseRun{runner: r, cs: c, cell: cell, lost: map[string]bool{}}
	res := Result{Case: c, Cell: cell}
	for n, rd := range c.rounds {
		problems := p.round(ctx, rd)
		for _, s := range problems {
			if len(c.rounds) > 1 {
				s = fmt.Sprintf("round %d: %s", n+1, s)
			}
			res.Problems = append(res.Problems, s)
		}
		res.Bytes += p.last.dump() + "\n"
		res.Differs = append(res.Differs, p.differs...)
		if len(problems) > 0 {
			break
		}
	}
	return res
}

// dial makes the client.
func (r *Runner) dial() {
	if r.client == nil {
		// A transport that decompresses would hide the encoding of the response.
		r.client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}
	}
}

// Close closes the client's idle connections.
func (r *Runner) Close() {
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
}

// caseRun is the state of a case in a cell.
type caseRun struct {
	runner      *Runner
	cs          *Case
	cell        Cell
	request     Request         // the next client request
	wantRequest Request         // the expected upstream request
	received    Reading         // the last client response
	sent        Response        // the last upstream response
	lost        map[string]bool // features whose loss was allowed in an earlier round
	last        *exchange
	made        map[int]bool // the numbers of calls that the upstream has made

	differs []Difference
}

func (p *caseRun) round(ctx context.Context, rd *round) []string {
	body := p.prepare(rd)
	if rd.response != nil && rd.response.breaks == "hold" {
		return p.leave(ctx, rd, body)
	}
	p.runner.Upstream.expect(func(w http.ResponseWriter, r *upstreamRequest) { p.cs.respond(rd, w, r) })
	p.last = p.runner.Target.post(ctx, p.runner.client, p.cell, p.cs, body)
	p.last.upstream = p.runner.Upstream.requests()
	p.runner.Upstream.expect(nil)
	if p.cs.Recorded() {
		p.differs = p.checkRecorded(rd)
		return texts(p.differs)
	}
	want := p.expected(rd)
	if want.Err != nil && want.breaks == "" {
		return append(p.checkError(want), p.checkRaw(rd)...)
	}
	return append(p.checkResponse(rd, want), p.checkRaw(rd)...)
}

// prepare returns the request body of this round.
func (p *caseRun) prepare(rd *round) []byte {
	v := codecOf(p.cell.Client)
	if rd.request != nil {
		p.converse(rd.request, v)
	}
	if text, ok := rd.rawRequest[p.cell.Client]; ok {
		return []byte(strings.NewReplacer("$MODEL", p.runner.Target.model(p.cell, p.cs), "$STREAM", fmt.Sprint(p.cell.Stream)).Replace(strings.TrimSpace(text)))
	}
	return v.writeRequest(p.request, p.runner.Target.model(p.cell, p.cs), p.cell.Stream)
}

func (p *caseRun) converse(a *requestLines, v codec) {
	said := v.fitRequest(a.Request)
	meant := p.native(said)
	if !a.again {
		p.request, p.wantRequest = said, meant
		return
	}
	echo := Turn{Role: "assistant", echo: p.received.Echo, Pieces: p.numbered(p.received.calls())}
	ids := map[int]Piece{}
	for _, c := range echo.Pieces {
		ids[c.number] = c
	}
	turns := append(append([]Turn(nil), p.request.Turns...), echo)
	for _, t := range said.Turns {
		t.Pieces = filterPieces(t.Pieces, func(q *Piece) bool {
			if call, ok := ids[q.number]; ok && q.Kind == kindResult {
				q.ID, q.Name = call.ID, call.Name
			}
			return true
		})
		turns = append(turns, t)
	}
	p.request.Turns = turns
	answer := Turn{Role: "assistant", Pieces: p.sent.Pieces}
	p.wantRequest.Turns = append(append(append([]Turn(nil), p.wantRequest.Turns...), answer), meant.Turns...)
}

// numbered returns the received calls with the numbers of the calls that were sent.
func (p *caseRun) numbered(calls []Piece) []Piece {
	made := p.sent.calls()
	for i := range calls {
		if i < len(made) {
			calls[i].number = made[i].number
		}
	}
	return calls
}

// native removes reasoning and signatures that the upstream did not produce.
func (p *caseRun) native(a Request) Request {
	if p.cell.Same() {
		return a
	}
	a.Turns = mapTurns(a.Turns, func(_ string, q *Piece) bool {
		q.Sig = ""
		return q.Kind != kindThink
	})
	return a
}

// expected returns the expected client response and sets the upstream response.
func (p *caseRun) expected(rd *round) Response {
	if rd.response != nil {
		p.sent = codecOf(p.cell.Upstream).fitResponse(*rd.response)
	}
	for _, d := range []Dialect{p.cell.Client, ""} {
		if s := rd.wantResponse[d]; s != nil {
			if rd.response == nil {
				p.sent = *s
			}
			return *s
		}
	}
	return p.sent
}

// checkResponse checks rounds that expect the status 200.
func (p *caseRun) checkResponse(rd *round, want Response) []string {
	x := p.last
	if x.status >= 400 && x.status < 500 && p.mayRefuse(x) {
		return p.checkRefusal(x)
	}
	if want.breaks != "" && (x.status >= 500 || p.cell.badGateway(x.status) || x.broken != nil && !p.cell.Stream) {
		return p.checkBroken(x)
	}
	if x.broken != nil && want.breaks == "" {
		return []string{fmt.Sprintf("the transfer broke off: %v", x.broken)}
	}
	if x.status != http.StatusOK {
		return []string{fmt.Sprintf("status %d: %.300s", x.status, x.body)}
	}
	if p.cell.Client == Chat && p.cell.Stream && !strings.Contains(string(x.sent), "include_usage") {
		want.Usage = nil // a stream has usage only on request (USE-07)
	}
	problems := p.checkRequest(rd)
	if p.cs.said.has(p.cell) && !x.reportsLoss() {
		problems = append(problems, fmt.Sprintf("something is lost in silence (fidelity %q)", x.header.Get("Isogloss-Fidelity")))
	}
	if p.cs.frame.has("linger") && x.took > lingerTime/2 {
		problems = append(problems, fmt.Sprintf("the answer took %s, although the upstream was done at once (SSE-20)", x.took.Round(time.Millisecond)))
	}
	seen, bad := p.read(x, want)
	p.received = seen
	problems = append(problems, bad...)
	if len(rd.wantResponse) > 0 || rd.response != nil {
		problems = append(problems, p.judge(compareResponse(want, seen, p.cell), "seen")...)
	}
	return problems
}

// read reads the response as a strict client.
func (p *caseRun) read(x *exchange, want Response) (Reading, []string) {
	v := codecOf(p.cell.Client)
	var s Reading
	var bad problemList
	kind := strings.ToLower(x.header.Get("Content-Type"))
	if p.cell.Stream {
		events, rest := p.cell.Client.readEvents(x.body)
		bad.addIf(rest != "" && want.breaks == "", "the stream ends inside an event: %.80q", rest)
		bad.addIf(!strings.HasPrefix(kind, p.cell.Client.Media()), "a stream of type %q", kind)
		s = v.readStream(events)
	} else {
		bad.addIf(!strings.HasPrefix(kind, "application/json"), "an answer of type %q", kind)
		s = v.readBody(x.body)
	}
	if x.header.Get("Content-Encoding") != "" && !p.runner.Target.Direct {
		bad.add("Content-Encoding %s that the client did not ask for (SSE-22)", x.header.Get("Content-Encoding"))
	}
	bad.addIf(x.header.Get("Set-Cookie") != "" && !p.runner.Target.Direct, "the upstream's cookie was passed on (LIF-15)")
	if want.breaks != "" && x.broken != nil && s.Err == nil && p.cell.Same() {
		s.Err = &APIError{Message: x.broken.Error()} // every SDK reports a broken transfer as an error
		if want.Err != nil {
			s.Err.Message = want.Err.Message
		}
	}
	return s, slices.Concat(bad, s.All())
}

// checkRequest checks the upstream request.
func (p *caseRun) checkRequest(rd *round) []string {
	x := p.last
	if len(x.upstream) != 1 {
		return []string{fmt.Sprintf("the upstream received %d requests, want 1", len(x.upstream))}
	}
	r := x.upstream[0]
	if r.dialect != p.cell.Upstream {
		return []string{fmt.Sprintf("the upstream received a request in the dialect %s", r.dialect)}
	}
	var problems []string
	if !p.runner.Target.Direct {
		for name, values := range r.header {
			if strings.Contains(strings.Join(values, " "), p.runner.Target.Key) {
				problems = append(problems, "the client's key went upstream in "+name+" (LIF-15)")
			}
		}
	}
	_, isRaw := rd.rawRequest[p.cell.Client]
	if !p.cell.Same() {
		for _, s := range r.parsed.Problems {
			problems = append(problems, "the upstream would refuse: "+s)
		}
	}
	want := rd.wantRequest[p.cell.Upstream]
	if want == nil {
		want = rd.wantRequest[""]
	}
	switch {
	case want != nil:
		problems = append(problems, p.judge(compareRequest(want.Request, r.parsed, p.cell), "heard")...)
	case !isRaw:
		problems = append(problems, p.judge(compareRequest(p.wantRequest, r.parsed, p.cell), "heard")...)
	}
	return problems
}

// judge drops the differences that the case allows: free features always, lost ones if
// the gateway reports the loss. A stream sends its headers before the answer is known, so
// a loss in the response has to be reported only for non-streaming requests.
func (p *caseRun) judge(list diffs, side string) []string {
	var out []string
	for _, d := range list {
		switch {
		case covers(p.cs.free, d.feature, p.cell):
		case !covers(p.cs.lose, d.feature, p.cell):
			out = append(out, d.text)
		case p.lost[d.feature], side == "seen" && p.cell.Stream, p.last.reportsLoss():
			p.lost[d.feature] = true
		default:
			out = append(out, fmt.Sprintf("%s is lost in silence (fidelity %q): %s", d.feature, p.last.header.Get("Isogloss-Fidelity"), d.text))
		}
	}
	return out
}
