package main

import (
	"context"
	"fmt"
	"net/http"
)

// histories are the three records of a scenario: of its clients, its upstream and the
// ledger.
type histories struct {
	exchanges []exchange
	attempts  []attempt
	rows      []row
}

// of returns the histories of the requests of one key.
func (b histories) of(key string) (h histories) {
	tags := map[string]bool{}
	for _, e := range b.exchanges {
		if e.key == key {
			tags[e.tag] = true
			h.exchanges = append(h.exchanges, e)
		}
	}
	for _, a := range b.attempts {
		if tags[a.tag] {
			h.attempts = append(h.attempts, a)
		}
	}
	for _, r := range b.rows {
		if r.key == key {
			h.rows = append(h.rows, r)
		}
	}
	return h
}

// delivered reports whether the ledger must have the request: at least one byte of an
// upstream's answer reached the client. A replayed answer is in the ledger already.
func (a exchange) delivered() bool { return a.status == http.StatusOK && a.bytes > 0 && !a.replayed }

// missing returns the delivered requests without a row in the ledger.
func missing(all []exchange, rows []row) (some []exchange) {
	has := map[string]bool{}
	for _, r := range rows {
		has[r.id] = true
	}
	for _, a := range all {
		if a.delivered() && !has[a.id] {
			some = append(some, a)
		}
	}
	return some
}

// compare returns everything that the histories disagree about.
func (b histories) compare() []string {
	var wrong []string
	byID := map[string]row{}
	for _, r := range b.rows {
		if _, twice := byID[r.id]; twice {
			wrong = append(wrong, "two rows have the id "+r.id)
		}
		byID[r.id] = r
	}
	tries := map[string][]attempt{}
	for _, s := range b.attempts {
		tries[s.tag] = append(tries[s.tag], s)
	}
	known, unnamed := map[string]bool{}, 0
	for _, a := range b.exchanges {
		known[a.id] = true
		if a.id == "" {
			unnamed++ // the gateway died or could not be reached
		}
		r, found := byID[a.id]
		switch {
		case a.delivered() && a.id == "":
			wrong = append(wrong, a.tag+": an answer without a request id")
		case a.delivered() && !found:
			wrong = append(wrong, fmt.Sprintf("%s: %d tokens were delivered (complete: %t) and the ledger has no row %s", a.tag, a.tokens, a.complete, a.id))
		case found:
			for _, w := range judge(a, r, tries[a.tag]) {
				wrong = append(wrong, fmt.Sprintf("%s: row %s: %s", a.tag, r.id, w))
			}
		}
	}
	unknown := 0
	for _, r := range b.rows {
		if !known[r.id] {
			unknown++
			wrong = append(wrong, judgeMoney(r)...)
		}
	}
	if unknown > unnamed {
		wrong = append(wrong, fmt.Sprintf("%d rows that no client knows, and only %d clients got no request id", unknown, unnamed))
	}
	return wrong
}

// judge compares a request with its row and its attempts.
func judge(a exchange, r row, tries []attempt) []string {
	wrong := judgeMoney(r)
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	most, reported := 0, false
	for _, s := range tries {
		most = max(most, s.tokens)
		reported = reported || s.usage
	}
	switch {
	case r.outcome == "cached" || a.replayed:
		if r.cost > 0 {
			add("a replayed answer costs %d", r.cost)
		}
		return wrong
	case a.status != http.StatusOK:
		if r.cost > 0 || r.output > 0 {
			add("the client got status %d and is charged %[3]d for %[2]d tokens", a.status, r.output, r.cost)
		}
		return wrong
	case r.key != a.key:
		add("it is charged to key %q and was sent with %q", r.key, a.key)
	}
	if a.complete {
		if r.outcome != "answered" && r.outcome != "lost" && r.outcome != "left" { // the gateway may die, or the client disconnect, after the last byte
			add("the client has a complete answer and the outcome is %q", r.outcome)
		}
		if r.outcome == "answered" && reported && (r.output != a.tokens || r.input != promptTokens || r.estimated) {
			add("the upstream reported %d and %d tokens; the row has %d and %d (estimated: %t)", promptTokens, a.tokens, r.input, r.output, r.estimated)
		}
	} else if r.outcome == "answered" && most > a.tokens && !a.left {
		add("the client has no complete answer and the outcome is %q", r.outcome)
	}
	if r.estimated && r.outcome == "answered" {
		most++ // an estimate counts the event that ends the response
	}
	if r.output < a.tokens || r.output > most {
		add("the client received %d tokens, the upstream sent %d, the row has %d (%s)", a.tokens, most, r.output, r.outcome)
	}
	return wrong
}

// judgeMoney compares a row's cost with its tokens.
func judgeMoney(r row) []string {
	free, paid := r.output*outputCost, r.output*outputCost+r.input*inputCost
	switch {
	case r.output == 0 && r.cost <= 0: // nothing was delivered, or there is no price
		return nil
	case r.cost == free || r.cost == paid:
		return nil
	}
	return []string{fmt.Sprintf("%d and %d tokens cost %d or %d, the row has %d", r.input, r.output, free, paid, r.cost)}
}

// compared compares the ledger with both ends and with its own sums.
func (s *stage) compared(ctx context.Context, rows []row) []string {
	return append(histories{s.exchanges.List(), s.up.attempts.List(), rows}.compare(), s.sums(ctx)...)
}
