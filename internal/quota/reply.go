package quota

import (
	"errors"
	"time"
)

// The answers of the script.
const (
	taken     = 1
	refused   = 0
	unknown   = -1
	tooMuch   = -2
	overtaken = -3
)

// reply is what the script for reservations says.
type reply struct {
	status  int64
	account int
	reason  int64
	wait    int64
	now     int64
	states  []int64
}

// Each account's state is so many numbers.
const (
	stateBorn = iota
	stateSeeded
	stateSpent
	stateReserved
	stateRequests
	stateTokens
	stateSize
)

func (g reply) state(i int) []int64 { return g.states[i*stateSize : (i+1)*stateSize] }

func (g reply) refusal(a *Ask) *Refusal {
	reasons := [...]Reason{1: Requests, 2: Tokens, 3: Concurrency, 4: Budget}
	return &Refusal{Account: a.Accounts[g.account].ID, Reason: reasons[g.reason], RetryAfter: time.Duration(max(0, g.wait)) * time.Millisecond}
}

func parse(values []int64, accounts int) (reply, error) {
	if len(values) == 0 {
		return reply{}, errors.New("redis answers nothing")
	}
	g := reply{status: values[0]}
	if len(values) >= 5 {
		g.account, g.reason, g.wait, g.now, g.states = int(values[1]), values[2], values[3], values[4], values[5:]
	}
	if (g.status == taken || g.status == refused) && len(g.states) != accounts*stateSize {
		return reply{}, errors.New("redis answers with too little")
	}
	return g, nil
}
