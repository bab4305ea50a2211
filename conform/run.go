package conform

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Result is what one case came to in one cell.
type Result struct {
	Case     *Case
	Cell     Cell
	Problems []string     // none if it holds
	Differs  []Difference // of a recording, the same as the problems
	Bytes    string       // of all exchanges, for a look by eye
}

// Held says whether the cell holds.
func (r Result) Held() bool { return len(r.Problems) == 0 }

// Runner plays cases against a target.
type Runner struct {
	Target   Target
	Upstream *Upstream
	client   *http.Client
}

// Cells lists the cells that a case runs in and the target serves.
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

// Run plays a case in one cell.
func (r *Runner) Run(ctx context.Context, c *Case, cell Cell) Result {
	if r.client == nil {
		// Compressed answers would hide what the gateway did with them.
		r.client = &http.Client{Transport: &http.Transport{DisableCompression: true}}
	}
	p := &play{runner: r, cs: c, cell: cell, lost: map[string]bool{}}
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

// Close gives up the client's connections.
func (r *Runner) Close() {
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
}

// play is a case on its way through a cell.
type play struct {
	runner *Runner
	cs     *Case
	cell   Cell
	said   Ask             // as it is written next
	meant  Ask             // as it should be heard
	saw    Seen            // the last answer
	gave   Reply           // as the upstream gave it
	lost   map[string]bool // features whose loss was allowed in an earlier round
	last   *exchange

	differs []Difference
}

func (p *play) round(ctx context.Context, rd *round) []string {
	body := p.prepare(rd)
	if rd.answer != nil && rd.answer.breaks == "hold" {
		return p.leave(ctx, rd, body)
	}
	p.runner.Upstream.expect(func(w http.ResponseWriter, r *request) { p.cs.answer(rd, w, r) })
	p.last = p.runner.Target.post(ctx, p.runner.client, p.cell, p.cs, body)
	p.last.upstream = p.runner.Upstream.requests()
	p.runner.Upstream.expect(nil)
	if p.cs.Recorded() {
		p.differs = p.checkRecorded(rd)
		return texts(p.differs)
	}
	want := p.expected(rd)
	if want.Fault != nil && want.breaks == "" {
		return append(p.checkFault(want), p.checkRaw(rd)...)
	}
	return append(p.checkAnswer(rd, want), p.checkRaw(rd)...)
}

// prepare brings the conversation up to this round and writes it.
func (p *play) prepare(rd *round) []byte {
	v := voiceOf(p.cell.Client)
	if rd.ask != nil {
		p.converse(rd.ask, v)
	}
	if text, ok := rd.askRaw[p.cell.Client]; ok {
		return []byte(strings.NewReplacer("$MODEL", p.runner.Target.model(p.cell, p.cs), "$STREAM", fmt.Sprint(p.cell.Stream)).Replace(strings.TrimSpace(text)))
	}
	return v.writeAsk(p.said, p.runner.Target.Models[p.cell.Upstream], p.cell.Stream)
}

func (p *play) converse(a *asking, v voice) {
	said := v.canAsk(a.Ask)
	meant := p.native(said)
	if !a.again {
		p.said, p.meant = said, meant
		return
	}
	echo := Turn{Role: "assistant", echo: p.saw.Echo, Pieces: p.numbered(p.saw.calls())}
	ids := map[int]Piece{}
	for _, c := range echo.Pieces {
		ids[c.number] = c
	}
	turns := append(append([]Turn(nil), p.said.Turns...), echo)
	for _, t := range said.Turns {
		t.Pieces = filterPieces(t.Pieces, func(q *Piece) bool {
			if call, ok := ids[q.number]; ok && q.Kind == kindResult {
				q.ID, q.Name = call.ID, call.Name
			}
			return true
		})
		turns = append(turns, t)
	}
	p.said.Turns = turns
	answer := Turn{Role: "assistant", Pieces: p.gave.Pieces}
	p.meant.Turns = append(append(append([]Turn(nil), p.meant.Turns...), answer), meant.Turns...)
}

// numbered gives the calls that the client saw the numbers of those that were made.
func (p *play) numbered(calls []Piece) []Piece {
	made := p.gave.calls()
	for i := range calls {
		if i < len(made) {
			calls[i].number = made[i].number
		}
	}
	return calls
}

// native takes out what means nothing to a foreign upstream: reasoning that it has
// not made and seals that it has not set.
func (p *play) native(a Ask) Ask {
	if p.cell.Same() {
		return a
	}
	a.Turns = mapTurns(a.Turns, func(_ string, q *Piece) bool {
		q.Sig = ""
		return q.Kind != kindThink
	})
	return a
}

// expected is what the client has to see, and sets what the upstream gives.
func (p *play) expected(rd *round) Reply {
	if rd.answer != nil {
		p.gave = voiceOf(p.cell.Upstream).canAnswer(*rd.answer)
	}
	for _, d := range []Dialect{p.cell.Client, ""} {
		if s := rd.seen[d]; s != nil {
			if rd.answer == nil {
				p.gave = *s
			}
			return *s
		}
	}
	return p.gave
}

// checkAnswer is for rounds that are to be answered with 200.
func (p *play) checkAnswer(rd *round, want Reply) []string {
	x := p.last
	if x.status >= 400 && x.status < 500 && p.mayRefuse(x) {
		return p.checkOwnFault(x)
	}
	if want.breaks != "" && (x.status >= 500 || x.broken != nil && !p.cell.Stream) {
		return p.checkGone(x)
	}
	if x.broken != nil && want.breaks == "" {
		return []string{fmt.Sprintf("the transfer broke off: %v", x.broken)}
	}
	if x.status != http.StatusOK {
		return []string{fmt.Sprintf("status %d: %.300s", x.status, x.body)}
	}
	if p.cell.Client == Chat && p.cell.Stream && !strings.Contains(string(x.asked), "include_usage") {
		want.Usage = nil // a stream has usage only for those who ask (USE-07)
	}
	problems := p.checkHeard(rd)
	if p.cs.said.has(p.cell) && !x.says() {
		problems = append(problems, fmt.Sprintf("something is lost in silence (fidelity %q)", x.header.Get("Isogloss-Fidelity")))
	}
	if p.cs.frame.has("linger") && x.took > lingerTime/2 {
		problems = append(problems, fmt.Sprintf("the answer took %s, although the upstream was done at once (SSE-20)", x.took.Round(time.Millisecond)))
	}
	seen, bad := p.read(x, want)
	p.saw = seen
	problems = append(problems, bad...)
	if len(rd.seen) > 0 || rd.answer != nil {
		problems = append(problems, p.judge(compareSeen(want, seen, p.cell), "seen")...)
	}
	return problems
}

// read reads the answer as a strict client.
func (p *play) read(x *exchange, want Reply) (Seen, []string) {
	v := voiceOf(p.cell.Client)
	var s Seen
	var bad complaints
	kind := strings.ToLower(x.header.Get("Content-Type"))
	if p.cell.Stream {
		events, rest := readEvents(x.body)
		if rest != "" && want.breaks == "" {
			bad.say("the stream ends inside an event: %.80q", rest)
		}
		if !strings.HasPrefix(kind, "text/event-stream") {
			bad.say("a stream of type %q", kind)
		}
		s = v.readStream(events)
	} else {
		if !strings.HasPrefix(kind, "application/json") {
			bad.say("an answer of type %q", kind)
		}
		s = v.readWhole(x.body)
	}
	if x.header.Get("Content-Encoding") != "" && !p.runner.Target.Direct {
		bad.say("Content-Encoding %s that the client did not ask for (SSE-22)", x.header.Get("Content-Encoding"))
	}
	if x.header.Get("Set-Cookie") != "" && !p.runner.Target.Direct {
		bad.say("the upstream's cookie was passed on (LIF-15)")
	}
	if want.breaks != "" && x.broken != nil && s.Fault == nil && p.cell.Same() {
		s.Fault = &Fault{Message: x.broken.Error()} // a broken transfer is an error to every SDK
		if want.Fault != nil {
			s.Fault.Message = want.Fault.Message
		}
	}
	return s, slices.Concat(bad, s.Problems)
}

// checkHeard looks at what the upstream got.
func (p *play) checkHeard(rd *round) []string {
	x := p.last
	if len(x.upstream) != 1 {
		return []string{fmt.Sprintf("the upstream was asked %d times, want once", len(x.upstream))}
	}
	r := x.upstream[0]
	if r.dialect != p.cell.Upstream {
		return []string{fmt.Sprintf("the upstream was spoken to in %s", r.dialect)}
	}
	var problems []string
	if !p.runner.Target.Direct {
		for name, values := range r.header {
			if strings.Contains(strings.Join(values, " "), p.runner.Target.Key) {
				problems = append(problems, "the client's key went upstream in "+name+" (LIF-15)")
			}
		}
	}
	_, rawAsk := rd.askRaw[p.cell.Client]
	if !p.cell.Same() {
		for _, s := range r.heard.problems {
			problems = append(problems, "the upstream would refuse: "+s)
		}
	}
	want := rd.heard[p.cell.Upstream]
	if want == nil {
		want = rd.heard[""]
	}
	switch {
	case want != nil:
		problems = append(problems, p.judge(compareHeard(want.Ask, r.heard, p.cell), "heard")...)
	case !rawAsk:
		problems = append(problems, p.judge(compareHeard(p.meant, r.heard, p.cell), "heard")...)
	}
	return problems
}

// judge lets pass what the case allows: free features always, lost ones if the
// gateway says so. A stream's header is written before its answer is known, so a
// loss on the way back has to be said only where the answer is whole.
func (p *play) judge(list diffs, side string) []string {
	var out []string
	for _, d := range list {
		switch {
		case covers(p.cs.free, d.feature, p.cell):
		case !covers(p.cs.lose, d.feature, p.cell):
			out = append(out, d.text)
		case p.lost[d.feature], side == "seen" && p.cell.Stream, p.last.says():
			p.lost[d.feature] = true
		default:
			out = append(out, fmt.Sprintf("%s is lost in silence (fidelity %q): %s", d.feature, p.last.header.Get("Isogloss-Fidelity"), d.text))
		}
	}
	return out
}
