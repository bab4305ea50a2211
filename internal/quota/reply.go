package quota

import (
	"errors"
	"time"
)

// Status codes of the reserve script.
const (
	granted       = 1
	refused       = 0
	unseeded      = -1
	sliceTooLarge = -2
	alreadyUndone = -3
)

// reply is the result of the reserve script.
type reply struct {
	status     int64
	account    int // index of the account that refuses
	reason     int64
	wait       int64
	now        int64
	perAccount []int64 // stateSize numbers for each account
}

// Positions of an account's state in a reply.
const (
	stateLease = iota
	stateGeneration
	stateSpent
	stateReserved
	stateRequests
	stateTokens
	stateSize
)

func (g reply) state(i int) []int64 { return g.perAccount[i*stateSize : (i+1)*stateSize] }

func (g reply) refusal(req *Request) *Refusal {
	reasons := [...]Reason{1: Requests, 2: Tokens, 3: Concurrency, 4: Budget}
	return req.Accounts[g.account].refuse(reasons[g.reason], time.Duration(g.wait)*time.Millisecond)
}

func parse(values []int64, accounts int) (reply, error) {
	if len(values) == 0 {
		return reply{}, errors.New("redis returned an empty reply")
	}
	g := reply{status: values[0]}
	if len(values) >= 5 {
		g.account, g.reason, g.wait, g.now, g.perAccount = int(values[1]), values[2], values[3], values[4], values[5:]
	}
	switch g.status {
	case granted, refused:
		if len(g.perAccount) != accounts*stateSize || g.account < 0 || g.account >= accounts || g.status == refused && (g.reason < 1 || g.reason > 4) {
			return reply{}, errReply
		}
	case unseeded:
		if g.account < 0 || g.account >= accounts {
			return reply{}, errReply
		}
	}
	g.wait = min(g.wait, maxWait)
	for i := range g.perAccount {
		g.perAccount[i] = plausible(g.perAccount[i])
	}
	return g, nil
}

// maxWait is the longest Retry-After in ms: the longest window of a budget is a year.
const maxWait = 366 * 24 * 60 * minute

var errReply = errors.New("redis returned another reply than that of the script")

// maxNumber is more than any sum in Redis: its numbers are exact up to 2^53. Sums of such
// numbers do not overflow.
const maxNumber = 1 << 53

// plausible bounds a number of Redis. A negative sum would raise a budget.
func plausible(n int64) int64 { return max(0, min(n, maxNumber)) }
