package discover

import (
	"github.com/cespare/xxhash/v2"

	"github.com/isogloss-gateway/isogloss/internal/targets/discover/rotation"
)

// Share is the part of the workers' capacity that this gateway uses. The zero value is
// all of it.
type Share struct {
	Gateways int // number of gateways that share the workers; 0: not known
	Rank     int // of this gateway among them, from 0
}

// Of returns the gateway's part of a worker's capacity. The parts of all gateways sum up
// to the capacity, or to the number of gateways if that is greater: each part is 1 or
// more. The gateways that get one more than others differ from worker to worker.
func (s Share) Of(w Worker) int {
	if s.Gateways < 2 || w.Capacity == 0 {
		return w.Capacity
	}
	part, rest := w.Capacity/s.Gateways, w.Capacity%s.Gateways
	first := int(xxhash.Sum64String(w.ID) % uint64(s.Gateways))
	if (first+s.Rank)%s.Gateways < rest {
		part++
	}
	return max(part, 1)
}

// TakesTurns reports whether the gateways use a worker in turns.
func (s Share) TakesTurns(w Worker) bool { return w.Capacity > 0 && w.Capacity < s.Gateways }

// valid reports whether the share can be that of a gateway.
func (s Share) valid() bool {
	return s == Share{} || s.Rank >= 0 && s.Rank < s.Gateways && s.Gateways <= rotation.MaxGateways
}
