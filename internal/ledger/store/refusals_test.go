package store

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// refusedCount returns a count of a key of the organisation acme.
func refusedCount(log, key string, reason usage.Reason, at time.Time, n int64) usage.RefusalCount {
	return usage.RefusalCount{Log: log, Node: "gw", Org: "acme", Team: "t", Key: key, Reason: reason, Minute: at.Truncate(time.Minute), Count: n}
}

// refusedRow returns the row of a refused request.
func refusedRow(id, key string, at time.Time) usage.Row {
	return usage.Row{ID: id, Node: "gw", Org: "acme", Team: "t", Key: key, Began: at, Took: time.Millisecond, Endpoint: "chat_completions", Dialect: "openai-chat", Model: "m",
		Status: 429, Outcome: usage.Refused, Cost: new(usage.Money),
		Told: usage.Told{Reason: usage.RefusedLimit, Code: "rate_limit_requests", Message: "wait", Remedy: "a higher limit"}}
}

// TestRefusals stores counts and rows of refused requests, some of them twice and in another order. Usage has the
// counts by every group that refusals have, and nothing else of them.
func TestRefusals(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		no(t, put(bg(), s, rows("a", 3)))
		before, err := s.Usage(bg(), UsageQuery{})
		no(t, err)
		for _, b := range []usage.Refusals{
			{Counts: []usage.RefusalCount{refusedCount("l1", "k9", usage.RefusedLimit, noon, 5), refusedCount("l1", "k9", usage.RefusedBudget, noon, 2)}},
			{Counts: []usage.RefusalCount{refusedCount("l1", "k9", usage.RefusedLimit, noon, 85), refusedCount("l2", "k9", usage.RefusedLimit, noon, 10)}, Rows: []usage.Row{refusedRow("r1", "k9", noon), refusedRow("r1", "k9", noon)}},
			{Counts: []usage.RefusalCount{refusedCount("l1", "k9", usage.RefusedLimit, noon, 7)}, Rows: []usage.Row{refusedRow("r1", "k9", noon)}}, // late
			{Counts: []usage.RefusalCount{refusedCount("l1", "k8", usage.RefusedLimit, noon.Add(25*time.Hour), 1), {Log: "l1", Node: "gw", Reason: usage.RefusedKey, Minute: noon, Count: 4}}},
		} {
			no(t, s.AppendRefusals(bg(), b))
			no(t, s.AppendRefusals(bg(), b))
		}
		if counts := BoundRefusals([]usage.RefusalCount{refusedCount("l", "k", usage.RefusedKey, noon, 1), refusedCount("l", "k", usage.RefusedKey, noon, 3)}); len(counts) != 1 || counts[0].Count != 3 {
			t.Errorf("two counts of a place: %+v", counts)
		}
		after, err := s.Usage(bg(), UsageQuery{})
		no(t, err)
		if after[0].Refused != 102 {
			t.Errorf("%d refused, want 102", after[0].Refused)
		}
		if after[0].Refused = 0; !reflect.DeepEqual(before, after) {
			t.Errorf("other sums have changed:\n%+v\n%+v", before, after)
		}
		for name, c := range map[string]struct {
			query UsageQuery
			want  map[string]int64
		}{
			"key":        {UsageQuery{GroupBy: []Group{ByKey}}, map[string]int64{"k9": 97, "k8": 1, "": 4}},
			"team":       {UsageQuery{GroupBy: []Group{ByTeam}}, map[string]int64{"acme t": 98, "": 4}},
			"model":      {UsageQuery{GroupBy: []Group{ByModel}}, map[string]int64{"": 102}},
			"end user":   {UsageQuery{GroupBy: []Group{ByUser}}, map[string]int64{"": 102}},
			"day":        {UsageQuery{GroupBy: []Group{ByDay}, Org: "acme"}, map[string]int64{"2026-11-15T00": 97, "2026-11-16T00": 1}},
			"hour":       {UsageQuery{GroupBy: []Group{ByHour}, Key: "k8"}, map[string]int64{"2026-11-16T13": 1}},
			"one key":    {UsageQuery{Key: "k9"}, map[string]int64{"": 97}},
			"one hour":   {UsageQuery{From: noon.Add(time.Minute), To: noon.Add(2 * time.Minute), Org: "acme"}, map[string]int64{"": 97}},
			"next hour":  {UsageQuery{From: noon.Add(time.Hour), To: noon.Add(2 * time.Hour)}, map[string]int64{}},
			"of a model": {UsageQuery{Model: "m"}, map[string]int64{}},
		} {
			list, err := s.Usage(bg(), c.query)
			no(t, err)
			got := map[string]int64{}
			for _, sum := range list {
				if sum.Refused == 0 {
					continue
				}
				place := sum.Org + sum.Key + sum.Model + sum.Label
				if sum.Team != "" {
					place += " " + sum.Team
				}
				if sum.Start.Unix() > 0 {
					place += sum.Start.Format("2006-01-02T15")
				}
				got[place] += sum.Refused
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
			sorted := slices.IsSortedFunc(list, func(a, b Sum) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Key, b.Key)) })
			if !sorted {
				t.Errorf("%s: not in order", name)
			}
		}
		list, err := s.Refusals(bg(), RefusalQuery{Org: "acme"})
		no(t, err)
		var got []string
		for _, r := range list {
			got = append(got, fmt.Sprint(r.Key, r.Team, r.Reason, r.Count, r.Last.Format(" 15:04")))
		}
		if want := []string{"k9tlimit95 12:00", "k9tbudget2 12:00", "k8tlimit1 13:00"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestRefusedRows finds rows of refused requests by everything that finds rows, also in an hour without other
// requests, and checks that a row that the spool hands over changes nothing.
func TestRefusedRows(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		row := refusedRow("00000000-0000-4000-8000-000000000001", "k9", noon)
		no(t, s.AppendRefusals(bg(), usage.Refusals{Counts: []usage.RefusalCount{refusedCount("l", "k9", usage.RefusedLimit, noon, 1)}, Rows: []usage.Row{row}}))
		other := refusedRow("00000000-0000-4000-8000-000000000002", "k9", noon)
		no(t, put(bg(), s, []usage.Row{other}))
		for name, q := range map[string]RowQuery{
			"all": {}, "id": {ID: row.ID}, "outcome": {Outcome: usage.Refused}, "key": {Key: "k9"}, "organisation": {Org: "acme"},
			"team": {Org: "acme", Team: "t"}, "model": {Model: "m"}, "status": {Status: 429}, "model and outcome": {Model: "m", Outcome: usage.Refused},
			"time": {From: noon, To: noon.Add(time.Second), Org: "acme"}, "page": {Org: "acme", Before: &RowMark{Began: noon.Add(time.Second)}},
		} {
			list, err := s.Rows(bg(), q)
			no(t, err)
			if len(list) != 1 || !reflect.DeepEqual(list[0], row) {
				t.Errorf("%s: %+v", name, list)
			}
		}
		if list, err := s.Rows(bg(), RowQuery{Org: "acme", Outcome: usage.Failed}); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		if sum, err := s.Usage(bg(), UsageQuery{}); err != nil || sum[0].Requests != 0 || sum[0].Refused != 1 {
			t.Errorf("%+v, %v", sum, err)
		}
		if spent, err := s.Spent(bg(), "key:k9", noon); err != nil || len(spent.Logs) != 0 {
			t.Errorf("%+v, %v", spent, err)
		}
	})
}

// TestHostileRefusals stores counts and rows that no gateway makes, as a forged message or a damaged file has them. They are
// bounded: refusals and usage can be read afterwards, and no row costs anything.
func TestHostileRefusals(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		most := int64(math.MaxInt64)
		bad := refusedRow("bad\x00\xff", "k\x00", noon)
		bad.Outcome, bad.Cost, bad.Model = usage.Answered, new(5*usage.Dollar), strings.Repeat("m", 1<<20)
		no(t, s.AppendRefusals(bg(), usage.Refusals{
			Counts: []usage.RefusalCount{refusedCount("l1", "k9", usage.RefusedLimit, noon, most), refusedCount("l2", "k9", usage.RefusedLimit, noon, most), refusedCount("l3", "k9", usage.RefusedLimit, noon, most-1),
				refusedCount("l\x00", "k\xff", "reason\x00", noon, 1), refusedCount(strings.Repeat("l", 1<<20), "k", usage.RefusedKey, noon, 1),
				refusedCount("l", "k", usage.RefusedKey, time.Time{}, 1), refusedCount("l", "k", usage.RefusedKey, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), 1), refusedCount("l", "k", usage.RefusedKey, noon, -1)},
			Rows: []usage.Row{bad, {}, refusedRow("good", "k9", noon)},
		}))
		list, err := s.Refusals(bg(), RefusalQuery{})
		no(t, err)
		if len(list) == 0 || list[0].Key != "k9" || list[0].Count != 3*maxRefused {
			t.Errorf("%+v", list)
		}
		sums, err := s.Usage(bg(), UsageQuery{})
		no(t, err)
		if len(sums) != 1 || sums[0].Requests != 0 || sums[0].Refused < 3*maxRefused {
			t.Errorf("%+v", sums)
		}
		rows, err := s.Rows(bg(), RowQuery{Limit: 10})
		no(t, err)
		if len(rows) != 2 {
			t.Errorf("%d rows", len(rows))
		}
		for _, r := range rows {
			if r.Outcome != usage.Refused || r.Cost == nil || *r.Cost != 0 || len(r.Model) > 300 {
				t.Errorf("%+v", r)
			}
		}
	})
}
