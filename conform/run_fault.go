package conform

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// checkFault is for rounds that are to be answered with an error.
func (p *play) checkFault(want Reply) []string {
	x := p.last
	f := want.Fault
	if x.broken != nil {
		return []string{fmt.Sprintf("the transfer broke off: %v", x.broken)}
	}
	if x.status == http.StatusOK {
		return []string{fmt.Sprintf("status 200 in place of an error: %.300s", x.body)}
	}
	got, err := voiceOf(p.cell.Client).readFault(x.status, x.body)
	if err != nil {
		return []string{fmt.Sprintf("status %d, %v", x.status, err)}
	}
	var bad complaints
	if f.Kind == refused {
		if x.status >= 500 {
			bad.say("refused with status %d", x.status)
		}
		if len(x.upstream) != 0 {
			bad.say("the upstream was asked %d times, want never", len(x.upstream))
		}
		for _, word := range strings.Fields(f.Message) {
			if !strings.Contains(strings.ToLower(got.Message+" "+got.detail), strings.ToLower(word)) {
				bad.say("the refusal does not name %s: %s (%s)", word, got.Message, got.detail)
			}
		}
		return bad
	}
	aside := f.Kind == "server" && x.status == http.StatusBadGateway // somebody else's 500
	if status := f.status(p.cell.Client); x.status != status && status != 0 && !aside {
		bad.say("status %d, want %d", x.status, status)
	}
	if f.Kind != "any" && f.Kind != "context" && got.Kind != f.Kind && faultKinds()[f.Kind] != faultKinds()[got.Kind] && !sameFault(f.Kind, got.Kind, p.cell.Client) {
		bad.say("an error of kind %s, want %s: %.200s", got.Kind, f.Kind, x.body)
	}
	if f.Kind == "context" {
		p.checkContext(got, &bad)
	}
	if !strings.Contains(got.Message, f.Message) {
		bad.say("the error says %q, want %q", got.Message, f.Message)
	}
	if f.Retry != "" && x.header.Get("Retry-After") != f.Retry {
		bad.say("Retry-After is %q, want %q (ERR-10)", x.header.Get("Retry-After"), f.Retry)
	}
	return bad
}

// sameFault: a status that several kinds share does not tell them apart.
func sameFault(a, b string, d Dialect) bool {
	return d != Anthropic && Fault{Kind: a}.status(d) == Fault{Kind: b}.status(d)
}

// checkContext: agents shorten their history when they can tell that it is too
// long (ERR-18).
func (p *play) checkContext(got Fault, bad *complaints) {
	switch p.cell.Client {
	case Chat, Responses:
		if !strings.Contains(got.detail, "context_length_exceeded") {
			bad.say("no code context_length_exceeded: %s", got.detail)
		}
	case Anthropic:
		if !strings.Contains(strings.ToLower(got.Message), "prompt is too long") {
			bad.say("the message does not say that the prompt is too long: %s", got.Message)
		}
	}
}

// mayRefuse: where a case allows a loss, a refusal that names it is as good.
func (p *play) mayRefuse(x *exchange) bool {
	got, err := voiceOf(p.cell.Client).readFault(x.status, x.body)
	if err != nil {
		return false
	}
	text := strings.ToLower(got.Message + " " + got.detail)
	for _, r := range p.cs.lose {
		for _, f := range r.features {
			for _, word := range featureWords(f) {
				if r.cells.has(p.cell) && strings.Contains(text, word) {
					return true
				}
			}
		}
	}
	return false
}

// featureWords are how a refusal may name a feature.
func featureWords(feature string) []string {
	switch feature {
	case "serial":
		return []string{"parallel"}
	case "format":
		return []string{"format", "schema"}
	case "result-image", "image":
		return []string{"image"}
	default:
		return []string{feature}
	}
}

func (p *play) checkOwnFault(x *exchange) []string {
	if len(x.upstream) > 0 {
		return []string{fmt.Sprintf("refused with %d after the upstream was asked", x.status)}
	}
	return nil
}

// checkGone: a broken answer that never became one is an error of the client's
// dialect, or a transfer that breaks.
func (p *play) checkGone(x *exchange) []string {
	if x.broken != nil {
		return nil
	}
	if _, err := voiceOf(p.cell.Client).readFault(x.status, x.body); err != nil {
		return []string{fmt.Sprintf("status %d, %v", x.status, err)}
	}
	return nil
}

// patience is how soon an upstream has to learn that nobody listens any more.
const patience = time.Second

// leave asks, goes away in the middle of the answer, and waits for the upstream to
// notice (LIF-01, LIF-02).
func (p *play) leave(ctx context.Context, rd *round, body []byte) []string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &holding{make(chan struct{}), make(chan struct{})}
	var once sync.Once
	p.runner.Upstream.expect(func(w http.ResponseWriter, r *request) {
		v := voiceOf(r.dialect)
		reply := v.canAnswer(*rd.answer)
		reply.want, reply.model = r.heard.want, r.heard.model
		once.Do(func() { p.cs.hold(w, v, reply, r, h) })
	})
	answered := make(chan *exchange, 1)
	go func() { answered <- p.runner.Target.post(ctx, p.runner.client, p.cell, p.cs, body) }()
	var problems []string
	select {
	case <-h.begun:
		cancel()
		p.last = <-answered
		select {
		case <-h.left:
		case <-time.After(patience):
			problems = []string{fmt.Sprintf("the client left, and the upstream did not learn of it within %s", patience)}
		}
	case p.last = <-answered:
		problems = []string{fmt.Sprintf("status %d before the upstream was asked: %.300s", p.last.status, p.last.body)}
	}
	p.last.upstream = p.runner.Upstream.requests()
	p.runner.Upstream.expect(nil)
	return problems
}

// checkRaw holds what a case says about bytes.
func (p *play) checkRaw(rd *round) []string {
	var bad complaints
	up := ""
	for _, r := range p.last.upstream {
		up = string(r.body)
	}
	sides := map[string]string{"heard": up, "heard" + string(p.cell.Upstream): up, "seen": string(p.last.body), "seen" + string(p.cell.Client): string(p.last.body)}
	for side, text := range sides {
		for _, s := range rd.has[side] {
			if !strings.Contains(text, s) {
				bad.say("%s has no %s: %.400s", side, s, text)
			}
		}
		for _, s := range rd.lacks[side] {
			if strings.Contains(text, s) {
				bad.say("%s has %s: %.400s", side, s, text)
			}
		}
	}
	if want := rd.heardRaw[p.cell.Upstream]; want != "" {
		subset(want, up, "the request upstream", &bad)
	}
	exts := rd.seenRaw[p.cell.Client]
	if want := exts["json"]; want != "" && (!p.cell.Stream || p.last.status != http.StatusOK) {
		subset(want, string(p.last.body), "the answer", &bad)
	}
	if want := exts["sse"]; want != "" && p.cell.Stream {
		p.subStream(want, &bad)
	}
	return bad
}

func subset(want, got, what string, bad *complaints) {
	w, err := parse([]byte(want))
	if err != nil {
		bad.say("the case's own JSON: %v", err)
		return
	}
	g, err := parse([]byte(got))
	if err != nil {
		bad.say("%s is no JSON: %v", what, err)
		return
	}
	if at := lacking(w.v, g.v, ""); at != "" {
		bad.say("%s differs at %s: %.400s", what, at, got)
	}
}

// subStream finds each event of the case in the stream, in order.
func (p *play) subStream(want string, bad *complaints) {
	events, _ := readEvents([]byte(want + "\n\n"))
	got, _ := readEvents(p.last.body)
	at := 0
	for _, w := range events {
		found := false
		for ; at < len(got) && !found; at++ {
			found = sameEvent(w, got[at])
		}
		if !found {
			bad.say("the stream has no event like %s %s after the ones before", w.name, w.data)
			return
		}
	}
}

func sameEvent(want, got event) bool {
	if want.name != "" && want.name != got.name {
		return false
	}
	w, err1 := parse([]byte(want.data))
	g, err2 := parse([]byte(got.data))
	if err1 != nil || err2 != nil {
		return want.data == got.data
	}
	return lacking(w.v, g.v, "") == ""
}
