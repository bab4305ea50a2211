package script

import (
	"encoding/binary"
	"errors"
	"math"
)

// Status codes of the reserve script.
const (
	Granted       = 1
	Refused       = 0
	Unseeded      = -1
	SliceTooLarge = -2
	AlreadyUndone = -3
	RecordLost    = -4
)

// Reply is the result of the reserve script.
type Reply struct {
	Status     int64
	Account    int // index of the account that refuses
	Reason     int64
	Wait       int64
	Now        int64
	perAccount []int64 // StateSize numbers for each account
}

// Positions of an account's state in a reply.
const (
	StateLease = iota
	StateGeneration
	StateSpent
	StateReserved
	StateRequests
	StateTokens
	StateSize
)

// State returns the state of an account.
func (g Reply) State(i int) []int64 { return g.perAccount[i*StateSize : (i+1)*StateSize] }

// Parse reads the result of the reserve script.
func Parse(values []int64, accounts int) (Reply, error) {
	if len(values) == 0 {
		return Reply{}, errors.New("redis returned an empty reply")
	}
	g := Reply{Status: values[0]}
	if len(values) >= 5 {
		g.Account, g.Reason, g.Wait, g.Now, g.perAccount = int(values[1]), values[2], values[3], values[4], values[5:]
	}
	switch g.Status {
	case Granted, Refused:
		if len(g.perAccount) != accounts*StateSize || g.Account < 0 || g.Account >= accounts || g.Status == Refused && (g.Reason < 1 || g.Reason > 4) {
			return Reply{}, errReply
		}
	case Unseeded:
		if g.Account < 0 || g.Account >= accounts {
			return Reply{}, errReply
		}
	}
	g.Wait = min(g.Wait, maxWait)
	for i := range g.perAccount {
		g.perAccount[i] = Plausible(g.perAccount[i])
	}
	return g, nil
}

// maxWait is the longest Retry-After in ms: the longest window of a budget is a year.
const maxWait = 366 * 24 * 60 * 60_000

var errReply = errors.New("redis returned another reply than that of the script")

// maxNumber is more than any sum in Redis, whose numbers are exact up to 2^53. Sums of such numbers do
// not overflow.
const maxNumber = 1 << 53

// Plausible bounds a number from Redis. A negative sum would raise a budget.
func Plausible(n int64) int64 { return max(0, min(n, maxNumber)) }

// Account is a record of an account in Redis.
type Account struct{ Spent, Open, Reserved, Requests, Tokens int64 }

// Positions of an account's numbers in its record; lua/lib.lua defines the layout.
const (
	packedSpent    = 4
	packedOpen     = 5
	packedReserved = 6
	packedRequests = 9
	packedTokens   = 11
	packedSize     = 13
)

// Unpack reads the record of an account.
func Unpack(text []byte) (a Account, err error) {
	if len(text) != 8*packedSize {
		return a, errors.New("redis has an account in another shape; is there another version of the gateway?")
	}
	at := func(i int) int64 { return int64(math.Float64frombits(binary.LittleEndian.Uint64(text[8*i:]))) }
	return Account{at(packedSpent), at(packedOpen), at(packedReserved), at(packedRequests), at(packedTokens)}, nil
}
