package relay

import (
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/cache"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

const (
	onceHeader  = "Idempotency-Key"
	cacheHeader = "Isogloss-Cache"
)

// memory is what an exchange has to do with answers that were given before.
type memory struct {
	run    *cache.Run // under an Idempotency-Key; nil without
	keep   bool       // the answer may be given again to the same request
	place  cache.Key  // where it is kept
	cached bool       // this answer is from there
}

// recall answers a request that was answered before: the one that an
// Idempotency-Key stands for, or the same one where answers are kept. It reports
// whether the client has its answer.
func (r *Relay) recall(x *exchange) (bool, *llm.Error) {
	if x.caller.Key == "" { // nobody's answers are given to nobody
		return false, nil
	}
	if key := x.client.Header.Get(onceHeader); key != "" && x.state.Books.Once != nil {
		answer, err := x.runOnce(key)
		if answer != nil {
			x.out.header()["Idempotent-Replayed"] = []string{"true"}
			x.seen.Recalled = "replay"
			x.replay(answer)
		}
		if answer != nil || err != nil {
			return answer != nil, err
		}
	}
	if x.state.Books.Answers == nil {
		return false, nil
	}
	return x.lookUp()
}

// runOnce claims an Idempotency-Key, or finds what came of it.
func (x *exchange) runOnce(key string) (*cache.Answer, *llm.Error) {
	v := x.state.Books.Once.Begin(x.ctx, x.caller.Key, key, x.question())
	fault := &llm.Error{Kind: llm.InvalidRequest, Param: onceHeader, RetryAfter: v.RetryAfter}
	switch v.State {
	case cache.First:
		x.memory.run, x.out.tape = v.Run, x.state.Books.Once.Recorder()
		return nil, nil
	case cache.Done:
		return v.Answer, nil
	case cache.Running:
		fault.Status, fault.Code, fault.Message = http.StatusConflict, "idempotency_running", "a request with this Idempotency-Key is still being answered; wait for it"
	case cache.Spent:
		fault.Status, fault.Code, fault.Message = http.StatusConflict, "idempotency_spent",
			"a request with this Idempotency-Key was sent and its answer is not there any more; it may have been charged, so send it again with a new key only if you want it twice"
	case cache.Mismatch:
		fault.Status, fault.Code, fault.Message = http.StatusUnprocessableEntity, "idempotency_mismatch", "this Idempotency-Key was used for another request; use a new one"
	case cache.Invalid:
		fault.Code, fault.Message = "invalid_value", "the Idempotency-Key is not 1 to "+strconv.Itoa(cache.MaxKey)+" printable characters"
	default:
		fault.Kind, fault.Code, fault.Message = llm.Overloaded, "idempotency_unavailable",
			"it cannot be known at present whether this Idempotency-Key was used; try again, or send the request without it"
	}
	return nil, fault
}

// question is everything that decides what the answer is.
func (x *exchange) question() *cache.Request {
	h := x.client.Header
	return &cache.Request{Endpoint: x.endpoint.name, Dialect: string(x.endpoint.dialect), Version: x.endpoint.version, Path: x.client.URL.RequestURI(),
		Betas: append(h.Values("Anthropic-Beta"), h.Values("Openai-Beta")...), Route: x.route.Name, Body: x.ask.body}
}

// lookUp gives the answer that is kept, or sees to it that this one is.
func (x *exchange) lookUp() (bool, *llm.Error) {
	control := cache.ControlOf(x.client.Header)
	if control == cache.Bypass || !cache.Deterministic(x.endpoint.name, x.ask.all()) {
		return false, nil
	}
	answers, m, q := x.state.Books.Answers, &x.memory, x.question()
	q.Route = destination(x.route)
	m.keep, m.place = true, answers.Key(cache.Tenant(x.caller.Org, x.caller.Key), q)
	if control == cache.Normal {
		if answer := answers.Get(x.ctx, m.place); answer != nil {
			m.keep, m.cached, x.seen.Recalled = false, true, "hit"
			h := x.out.header()
			h[cacheHeader], h["Age"] = []string{"hit"}, []string{strconv.Itoa(answer.Age(time.Now()))}
			x.account = &account{}
			err := x.openRow(false)
			if err == nil {
				x.replay(answer)
			}
			return err == nil, err
		}
	}
	x.out.header()[cacheHeader] = []string{"miss"}
	if x.out.tape == nil {
		x.out.tape = answers.Recorder()
	}
	return false, nil
}

// destination is what a route leads to: an answer is not given again where somebody
// else would be asked today.
func destination(r *route.Route) string {
	var b strings.Builder
	b.WriteString(r.Name)
	for _, t := range r.Targets {
		b.WriteString("\n" + t.String() + " " + t.Provider.BaseURL.String())
	}
	return b.String()
}

// ownEnd is how an answer ends that says all that the model had to say, or that was
// allowed, in any dialect's words. One that a filter has touched has another, and so
// has whatever a vendor thinks of next.
func ownEnd(finish string) bool {
	switch strings.ToLower(finish) {
	case "", "stop", "length", "tool_calls", "function_call", // no word at all: embeddings
		"completed", "max_output_tokens",
		"end_turn", "max_tokens", "tool_use", "stop_sequence":
		return true
	}
	return false
}

// all are the members of the body.
func (o *object) all() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, m := range o.members {
			if !yield(m.name, o.body[m.at.start:m.at.end]) {
				return
			}
		}
	}
}

// replay sends an answer that was given before.
func (x *exchange) replay(a *cache.Answer) {
	h := x.out.header()
	for name, values := range a.Header {
		h[name] = values
	}
	if a.Stream {
		streamHeaders(h)
	} else {
		h["Content-Length"] = []string{strconv.Itoa(len(a.Body))}
	}
	x.seen.Status = a.Status
	x.charge()
	x.out.commit(a.Status)
	if err := x.out.write(a.Body, time.Now()); err != nil {
		x.seen.Err = clientGone(err)
	}
}

// remember keeps the answer, where it is to be given again. The exchange is over.
func (x *exchange) remember() {
	m := &x.memory
	if m.run == nil && !m.keep {
		return
	}
	body, whole := x.out.tape.Body()
	h := x.out.header()
	a := &cache.Answer{Status: x.seen.Status, Body: body, Stream: x.ask.stream && x.seen.Status == http.StatusOK, At: time.Now(),
		Header: http.Header{"Content-Type": h["Content-Type"], "Isogloss-Target": h["Isogloss-Target"], "Isogloss-Fidelity": h["Isogloss-Fidelity"]}}
	err := x.seen.Err
	if m.keep && whole && err == nil && ownEnd(x.summary().Finish) {
		x.state.Books.Answers.Put(m.place, a)
	}
	switch {
	case m.run == nil:
	case x.seen.Attempts == 0:
		m.run.Release()
	case whole && !x.cut && (err == nil || !a.Stream && err.Kind != llm.Cancelled):
		m.run.Finish(a)
	default:
		m.run.Spend()
	}
}
