package sums

import (
	"slices"
	"time"
)

// Totals returns the sum of all sums of a result, and the sums of its hours or days.
func Totals(list []Sum) (all Sum, times []Sum) {
	byTime := map[time.Time]*Sum{}
	for i := range list {
		start := list[i].Start
		if byTime[start] == nil {
			byTime[start] = &Sum{Start: start}
		}
		byTime[start].add(&list[i])
		all.add(&list[i])
	}
	for _, s := range byTime {
		times = append(times, *s)
	}
	slices.SortFunc(times, func(a, b Sum) int { return a.Start.Compare(b.Start) })
	return all, times
}

func (s *Sum) add(o *Sum) {
	s.Requests += o.Requests
	s.Unknown += o.Unknown
	s.Estimated += o.Estimated
	s.Errors += o.Errors
	s.Refused += o.Refused
	s.Usage = s.Usage.Add(o.Usage)
	s.Cost += o.Cost
	for i, n := range o.FirstToken {
		s.FirstToken[i] += n
	}
}
