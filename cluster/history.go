package main

import (
	"sync"
	"time"
)

// asked is one request as its client saw it.
type asked struct {
	tag    string
	node   int
	key    string // its id
	stream bool
	most   int // max_tokens

	id     string // as the gateway told it; empty where no answer came
	status int    // 0 where no answer came
	code   string // of an error
	hint   string // Retry-After
	tokens int    // words that arrived
	bytes  int64
	whole  bool  // the answer came to its end
	again  bool  // it is an earlier request's, under the same Idempotency-Key
	left   bool  // the client went away, as it was told to
	broken error // the connection failed
	body   string

	at          time.Time
	first, took time.Duration
}

// served is one attempt as the upstream saw it.
type served struct {
	tag    string
	who    string // which of the upstreams
	try    int    // the how many-th for this tag, from 1
	tokens int    // words that were written to the connection
	whole  bool   // to its end
	gone   bool   // the gateway went away
	fault  string // what the upstream did wrong, as it was told to
	told   bool   // it has said the usage
	bearer string // the credential that came
	at     time.Time
	took   time.Duration
}

// history gathers what one side saw.
type history[T any] struct {
	mu  sync.Mutex
	all []T
}

func (h *history[T]) add(one T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, one)
}

// pick are those for which something holds.
func (h *history[T]) pick(ok func(T) bool) []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	var some []T
	for _, one := range h.all {
		if ok(one) {
			some = append(some, one)
		}
	}
	return some
}

func (h *history[T]) list() []T { return h.pick(func(T) bool { return true }) }

func count[T any](all []T, ok func(T) bool) (n int) {
	for _, one := range all {
		if ok(one) {
			n++
		}
	}
	return n
}
