package conform

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// checkError checks rounds that expect an error.
func (p *caseRun) checkError(want Response) []string {
	x := p.last
	f := want.Err
	if x.broken != nil {
		return []string{fmt.Sprintf("the transfer broke off: %v", x.broken)}
	}
	if x.status == http.StatusOK {
		return []string{fmt.Sprintf("status 200 in place of an error: %.300s", x.body)}
	}
	got, err := codecOf(p.cell.Client).readError(x.status, x.body)
	if err != nil {
		return []string{fmt.Sprintf("status %d, %v", x.status, err)}
	}
	var bad problemList
	if f.Kind == refused {
		bad.addIf(x.status >= 500, "refused with status %d", x.status)
		bad.addIf(len(x.upstream) != 0, "the upstream received %d requests, want none", len(x.upstream))
		for _, word := range strings.Fields(f.Message) {
			if !strings.Contains(strings.ToLower(got.Message+" "+got.detail), strings.ToLower(word)) {
				bad.add("the refusal does not name %s: %s (%s)", word, got.Message, got.detail)
			}
		}
		return bad
	}
	status := f.status(p.cell.Client)
	// The gateway reports an upstream's 500 as 502. Bedrock has 424 for an error of the model, and no 502.
	aside := f.Kind == "server" && x.status == http.StatusBadGateway || (f.Kind == "server" || status == http.StatusBadGateway) && p.cell.badGateway(x.status)
	if x.status != status && status != 0 && !aside {
		bad.add("status %d, want %d", x.status, status)
	}
	if f.Kind != "any" && f.Kind != "context" && got.Kind != f.Kind && errorKinds()[f.Kind] != errorKinds()[got.Kind] && !sameStatus(f.Kind, got.Kind, p.cell.Client) {
		bad.add("an error of kind %s, want %s: %.200s", got.Kind, f.Kind, x.body)
	}
	if f.Kind == "context" {
		p.checkContext(got, &bad)
	}
	bad.addIf(!strings.Contains(got.Message, f.Message), "the error says %q, want %q", got.Message, f.Message)
	bad.addIf(f.Retry != "" && x.header.Get("Retry-After") != f.Retry, "Retry-After is %q, want %q (ERR-10)", x.header.Get("Retry-After"), f.Retry)
	return bad
}

// badGateway reports whether a status tells the client that the upstream failed.
func (c Cell) badGateway(status int) bool {
	return c.Client == Converse && (status == http.StatusFailedDependency || status == http.StatusInternalServerError)
}

// sameStatus reports whether two kinds share a status and cannot be distinguished.
func sameStatus(a, b string, d Dialect) bool {
	return d != Anthropic && APIError{Kind: a}.status(d) == APIError{Kind: b}.status(d)
}

// checkContext checks that agents can recognise a prompt that is too long (ERR-18).
func (p *caseRun) checkContext(got APIError, bad *problemList) {
	switch p.cell.Client {
	case Chat, Responses:
		bad.addIf(!strings.Contains(got.detail, "context_length_exceeded"), "no code context_length_exceeded: %s", got.detail)
	case Anthropic:
		bad.addIf(!strings.Contains(strings.ToLower(got.Message), "prompt is too long"), "the message does not say that the prompt is too long: %s", got.Message)
	}
}

// mayRefuse reports whether the error names a loss that the case allows.
func (p *caseRun) mayRefuse(x *exchange) bool {
	got, err := codecOf(p.cell.Client).readError(x.status, x.body)
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

// featureWords returns the words for a feature in an error message.
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

func (p *caseRun) checkRefusal(x *exchange) []string {
	if len(x.upstream) > 0 {
		return []string{fmt.Sprintf("rejected with %d after a request to the upstream", x.status)}
	}
	return nil
}

// checkBroken accepts an error of the client's dialect, or a failed transfer, for a
// response that broke off before its start.
func (p *caseRun) checkBroken(x *exchange) []string {
	if x.broken != nil {
		return nil
	}
	if _, err := codecOf(p.cell.Client).readError(x.status, x.body); err != nil {
		return []string{fmt.Sprintf("status %d, %v", x.status, err)}
	}
	return nil
}

// patience is the time within which the upstream must notice that the client disconnected.
const patience = time.Second

// leave sends a request, disconnects during the response and waits until the upstream notices
// (LIF-01, LIF-02).
func (p *caseRun) leave(ctx context.Context, rd *round, body []byte) []string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &holding{make(chan struct{}), make(chan struct{})}
	var once sync.Once
	p.runner.Upstream.expect(func(w http.ResponseWriter, r *upstreamRequest) {
		v := codecOf(r.dialect)
		reply := v.fitResponse(*rd.response)
		reply.options, reply.model = r.parsed.options, r.parsed.Model
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
			problems = []string{fmt.Sprintf("the upstream did not notice within %s that the client disconnected", patience)}
		}
	case p.last = <-answered:
		problems = []string{fmt.Sprintf("status %d before a request to the upstream: %.300s", p.last.status, p.last.body)}
	}
	p.last.upstream = p.runner.Upstream.requests()
	p.runner.Upstream.expect(nil)
	return problems
}

// checkRaw checks the byte-level expectations of a case.
func (p *caseRun) checkRaw(rd *round) []string {
	var bad problemList
	up := ""
	for _, r := range p.last.upstream {
		up = string(r.body)
	}
	sides := map[string]string{"heard": up, "heard" + string(p.cell.Upstream): up, "seen": string(p.last.body), "seen" + string(p.cell.Client): string(p.last.body)}
	for side, text := range sides {
		for _, s := range rd.has[side] {
			bad.addIf(!strings.Contains(text, s), "%s has no %s: %.400s", side, s, text)
		}
		for _, s := range rd.lacks[side] {
			bad.addIf(strings.Contains(text, s), "%s has %s: %.400s", side, s, text)
		}
	}
	if want := rd.wantRawRequest[p.cell.Upstream]; want != "" {
		subset(want, up, "the request upstream", &bad)
	}
	exts := rd.wantRawResponse[p.cell.Client]
	if want := exts["json"]; want != "" && (!p.cell.Stream || p.last.status != http.StatusOK) {
		subset(want, string(p.last.body), "the answer", &bad)
	}
	if want := exts["sse"]; want != "" && p.cell.Stream {
		p.subStream(want, &bad)
	}
	return bad
}

func subset(want, got, what string, bad *problemList) {
	w, err := parse([]byte(want))
	if err != nil {
		bad.add("the case's own JSON: %v", err)
		return
	}
	g, err := parse([]byte(got))
	if err != nil {
		bad.add("%s is no JSON: %v", what, err)
		return
	}
	if at := missing(w.v, g.v, ""); at != "" {
		bad.add("%s differs at %s: %.400s", what, at, got)
	}
}

// subStream checks that the stream has the events of the case in order.
func (p *caseRun) subStream(want string, bad *problemList) {
	events, _ := readEvents([]byte(want + "\n\n"))
	got, _ := p.cell.Client.readEvents(p.last.body)
	at := 0
	for _, w := range events {
		found := false
		for ; at < len(got) && !found; at++ {
			found = sameEvent(w, got[at])
		}
		if !found {
			bad.add("the stream has no event like %s %s after the ones before", w.name, w.data)
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
	return missing(w.v, g.v, "") == ""
}
