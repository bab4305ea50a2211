package main

import (
	"context"
	"fmt"
	"net/http"
)

// books are the three histories of a scenario.
type books struct {
	asked  []asked
	served []served
	rows   []row
}

// delivered reports whether a request must be in the ledger: at least one byte of
// an upstream's answer has reached the client. An answer that is given again is in it
// already.
func (a asked) delivered() bool { return a.status == http.StatusOK && a.bytes > 0 && !a.again }

// missing are the delivered requests that the ledger has no row for.
func missing(all []asked, rows []row) (some []asked) {
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

// compare returns all that does not agree.
func (b books) compare() []string {
	var wrong []string
	byID := map[string]row{}
	for _, r := range b.rows {
		if _, twice := byID[r.id]; twice {
			wrong = append(wrong, "two rows have the id "+r.id)
		}
		byID[r.id] = r
	}
	tries := map[string][]served{}
	for _, s := range b.served {
		tries[s.tag] = append(tries[s.tag], s)
	}
	known, untold := map[string]bool{}, 0
	for _, a := range b.asked {
		known[a.id] = true
		if a.id == "" {
			untold++ // the gateway died, or could not be reached
		}
		r, found := byID[a.id]
		switch {
		case a.delivered() && a.id == "":
			wrong = append(wrong, a.tag+": an answer without an id")
		case a.delivered() && !found:
			wrong = append(wrong, fmt.Sprintf("%s: %d tokens were delivered (whole: %t) and the ledger has no row %s", a.tag, a.tokens, a.whole, a.id))
		case found:
			for _, w := range judge(a, r, tries[a.tag]) {
				wrong = append(wrong, fmt.Sprintf("%s: row %s: %s", a.tag, r.id, w))
			}
		}
	}
	strangers := 0
	for _, r := range b.rows {
		if !known[r.id] {
			strangers++
			wrong = append(wrong, judgeMoney(r)...)
		}
	}
	if strangers > untold {
		wrong = append(wrong, fmt.Sprintf("%d rows that no client was told of, and only %d clients were told nothing", strangers, untold))
	}
	return wrong
}

// judge compares one request with its row and its attempts.
func judge(a asked, r row, tries []served) []string {
	wrong := judgeMoney(r)
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	most, told := 0, false
	for _, s := range tries {
		most = max(most, s.tokens)
		told = told || s.told
	}
	switch {
	case r.outcome == "cached" || a.again:
		if r.cost > 0 {
			add("an answer that was given again costs %d", r.cost)
		}
		return wrong
	case a.status != http.StatusOK:
		if r.cost > 0 || r.output > 0 {
			add("the client got status %d and is charged for %d tokens, %d", a.status, r.output, r.cost)
		}
		return wrong
	case r.key != a.key:
		add("it is charged to key %q and was asked with %q", r.key, a.key)
	}
	if a.whole {
		if r.outcome != "answered" && r.outcome != "lost" && r.outcome != "left" { // the gateway may die, or the client hang up, after the last byte
			add("the client has a whole answer and the outcome is %q", r.outcome)
		}
		if r.outcome == "answered" && told && (r.output != a.tokens || r.input != promptTokens || r.estimated) {
			add("the upstream told %d and %d tokens; the row has %d and %d (estimated: %t)", promptTokens, a.tokens, r.input, r.output, r.estimated)
		}
	} else if r.outcome == "answered" && most > a.tokens && !a.left {
		add("the client has no whole answer and the outcome is %q", r.outcome)
	}
	if r.output < a.tokens || r.output > most {
		add("the client has got %d tokens, the upstream has sent %d, the row has %d (%s)", a.tokens, most, r.output, r.outcome)
	}
	return wrong
}

// judgeMoney holds a row's cost against its tokens.
func judgeMoney(r row) []string {
	free, paid := r.output*outputCost, r.output*outputCost+r.input*inputCost
	switch {
	case r.output == 0 && r.cost <= 0: // nothing was delivered, or no price was asked for
		return nil
	case r.cost == free || r.cost == paid:
		return nil
	}
	return []string{fmt.Sprintf("%d and %d tokens cost %d or %d, the row has %d", r.input, r.output, free, paid, r.cost)}
}

// compared holds the ledger against both ends, and against its own sums.
func (s *stage) compared(ctx context.Context, rows []row) []string {
	return append(books{s.clients.history.list(), s.up.history.list(), rows}.compare(), s.sums(ctx)...)
}
