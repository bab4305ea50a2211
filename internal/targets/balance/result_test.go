package balance

import (
	"fmt"
	"slices"
)

// result is the outcome of a replay.
type result struct {
	requests       int
	prompt, cached int     // tokens
	further, moved int     // turns after the first, and those that another engine served than the turn before
	mostRequests   float64 // maximum of an engine in a phase, relative to the mean of all engines
	mostInFlight   float64 // the same for requests in flight over time
	inFlight       float64 // mean per engine
}

func (r *result) count(prompt, cached int, before, now *engine) {
	r.requests++
	r.prompt += prompt
	r.cached += cached
	if before != nil {
		r.further++
		if before != now {
			r.moved++
		}
	}
}

func (r result) hitRate() float64 { return float64(r.cached) / float64(r.prompt) }

const header = "                                  hits  × r-r  most requests  most in flight  in flight   moved"

func (r result) row(name string, roundRobin result) string {
	return fmt.Sprintf("%-30s %6.1f%%  %5.2f %13.3fx %14.3fx %10.1f  %5.1f%%", name, 100*r.hitRate(),
		r.hitRate()/roundRobin.hitRate(), r.mostRequests, r.mostInFlight, r.inFlight, 100*float64(r.moved)/float64(r.further))
}

// beginPhase starts a period in which the set of engines does not change.
func (s *simulation) beginPhase() {
	s.phase = s.now
	for _, e := range s.engines {
		e.advance(s.now)
		e.requests, e.area = 0, 0
	}
}

func (s *simulation) endPhase() {
	var requests, area, topRequests, topArea float64
	for _, e := range s.engines {
		e.advance(s.now)
		requests += float64(e.requests)
		area += e.area
		topRequests = max(topRequests, float64(e.requests))
		topArea = max(topArea, e.area)
	}
	n := float64(len(s.engines))
	s.result.mostRequests = max(s.result.mostRequests, topRequests/requests*n)
	s.result.mostInFlight = max(s.result.mostInFlight, topArea/area*n)
	s.result.inFlight = area / n / (s.now - s.phase)
}

func (s *simulation) add(id string) {
	s.engines = append(s.engines, &engine{id: id, cache: newPrefixCache(s.room), inFlight: make([]int, len(s.gateways)), changed: s.now})
}

// change replaces the set of engines at a time. Requests in flight at a removed engine
// still finish.
func (s *simulation) change(at float64, how func()) {
	s.push(event{at: at, happen: func() {
		s.endPhase()
		how()
		s.know()
		s.beginPhase()
	}})
}

func (s *simulation) remove(id string) {
	s.engines = slices.DeleteFunc(s.engines, func(e *engine) bool { return e.id == id })
}
