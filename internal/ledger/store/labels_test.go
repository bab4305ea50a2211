package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// labelled returns rows over three days, of which every fourth has no labels.
func labelled(prefix string, n int) []usage.Row {
	list := rows(prefix, n)
	for i := range list {
		r := &list[i]
		r.Began = noon.Add(time.Duration(i) * 37 * time.Minute)
		r.Model = fmt.Sprint("model-", i%3)
		if i%4 > 0 {
			r.Tags = []usage.Tag{{Key: "feature", Value: fmt.Sprint("f", i%2)}, {Key: "team", Value: fmt.Sprint("t", i%3)}}
		}
		if i%5 == 0 {
			r.User = fmt.Sprint("user-", i%10)
		}
	}
	return list
}

// TestRowsWithLabels checks that rows come back with their labels and are found by them.
func TestRowsWithLabels(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		sent := labelled("la", 40)
		no(t, put(t.Context(), s, sent))
		no(t, put(t.Context(), s, sent)) // again, as after a lost acknowledgement
		for name, c := range map[string]struct {
			q    RowQuery
			want func(r usage.Row) bool
		}{
			"all":  {RowQuery{}, func(usage.Row) bool { return true }},
			"tag":  {RowQuery{Tag: usage.Tag{Key: "team", Value: "t1"}}, func(r usage.Row) bool { return tagOf(r, "team") == "t1" }},
			"user": {RowQuery{User: "user-5"}, func(r usage.Row) bool { return r.User == "user-5" }},
			"both, for a time": {RowQuery{User: "user-5", Tag: usage.Tag{Key: "feature", Value: "f1"}, From: noon.Add(time.Hour), To: noon.Add(20 * time.Hour)}, func(r usage.Row) bool {
				return r.User == "user-5" && tagOf(r, "feature") == "f1" && !r.Began.Before(noon.Add(time.Hour)) && r.Began.Before(noon.Add(20*time.Hour))
			}},
			"value of another tag": {RowQuery{Tag: usage.Tag{Key: "feature", Value: "t1"}}, func(usage.Row) bool { return false }},
			"SQL":                  {RowQuery{User: `' OR 1=1 --`}, func(usage.Row) bool { return false }},
		} {
			var want []usage.Row
			for _, r := range slices.Backward(sent) {
				if c.want(r) {
					want = append(want, r)
				}
			}
			var got []usage.Row
			for c.q.Limit = 3; ; {
				page, err := s.Rows(t.Context(), c.q)
				no(t, err)
				if len(page) == 0 {
					break
				}
				got = append(got, page...)
				c.q.Before = &RowMark{page[len(page)-1].Began, page[len(page)-1].ID}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, want)
			}
		}
	})
}

func tagOf(r usage.Row, key string) string {
	for _, t := range r.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return ""
}

// TestUsageByLabel compares sums by labels with the rows, with those of requests that have no such
// label.
func TestUsageByLabel(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		all := labelled("lb", 200)
		for i := range all {
			if i%7 == 0 {
				all[i].Cost, all[i].Estimated = nil, true
			}
		}
		no(t, put(t.Context(), s, all[:90]))
		no(t, put(t.Context(), s, all[90:]))
		team := func(r usage.Row) string { return tagOf(r, "team") }
		user := func(r usage.Row) string { return r.User }
		day := func(r usage.Row) time.Time { return r.Began.Truncate(24 * time.Hour) }
		hour := func(r usage.Row) time.Time { return r.Began.Truncate(time.Hour) }
		for name, c := range map[string]struct {
			q     UsageQuery
			group func(r usage.Row) (Sum, bool)
		}{
			"tag":          {UsageQuery{GroupBy: []Group{ByTag("team")}}, func(r usage.Row) (Sum, bool) { return Sum{Label: team(r)}, true }},
			"user and day": {UsageQuery{GroupBy: []Group{ByDay, ByUser}}, func(r usage.Row) (Sum, bool) { return Sum{Start: day(r), Label: user(r)}, true }},
			"hour, model, tag": {UsageQuery{GroupBy: []Group{ByHour, ByModel, ByTag("team")}}, func(r usage.Row) (Sum, bool) {
				return Sum{Start: hour(r), Model: r.Model, Label: team(r)}, true
			}},
			"key, of a model, for a time": {UsageQuery{Model: "model-1", From: noon.Add(24 * time.Hour), GroupBy: []Group{ByKey, ByTag("team")}}, func(r usage.Row) (Sum, bool) {
				return Sum{Key: r.Key, Label: team(r)}, r.Model == "model-1" && !r.Began.Before(noon.Add(24*time.Hour))
			}},
			"of one value":           {UsageQuery{Tag: usage.Tag{Key: "team", Value: "t2"}, GroupBy: []Group{ByModel}}, func(r usage.Row) (Sum, bool) { return Sum{Model: r.Model}, team(r) == "t2" }},
			"of one value, by label": {UsageQuery{Tag: usage.Tag{Key: "team", Value: "t2"}, GroupBy: []Group{ByTag("team")}}, func(r usage.Row) (Sum, bool) { return Sum{Label: "t2"}, team(r) == "t2" }},
			"of one user":            {UsageQuery{User: "user-5"}, func(r usage.Row) (Sum, bool) { return Sum{}, user(r) == "user-5" }},
			"unknown tag":            {UsageQuery{GroupBy: []Group{ByTag("nope")}}, func(usage.Row) (Sum, bool) { return Sum{}, true }},
			"another organisation":   {UsageQuery{Org: "nope", GroupBy: []Group{ByTag("team")}}, func(usage.Row) (Sum, bool) { return Sum{}, false }},
		} {
			want := map[Sum]Sum{}
			for _, r := range all {
				if group, ok := c.group(r); ok {
					want[group] = addTo(cmpOr(want[group], group), r)
				}
			}
			got, err := s.Usage(t.Context(), c.q)
			no(t, err)
			if len(got) != len(want) {
				t.Errorf("%s: %d sums, want %d", name, len(got), len(want))
			}
			for _, sum := range got {
				if !slices.ContainsFunc(slices.Collect(maps.Values(want)), func(w Sum) bool { return w == sum }) {
					t.Errorf("%s: the sum %+v is not among %+v", name, sum, want)
				}
			}
		}
		for _, q := range []UsageQuery{
			{GroupBy: []Group{ByUser, ByTag("team")}}, {GroupBy: []Group{ByTag("feature"), ByTag("team")}},
			{User: "u", GroupBy: []Group{ByTag("team")}}, {User: "u", Tag: usage.Tag{Key: "k", Value: "v"}},
		} {
			var own Error
			if _, err := s.Usage(t.Context(), q); !errors.As(err, &own) {
				t.Errorf("%+v: %v", q, err)
			}
		}
	})
}

func cmpOr(s, group Sum) Sum {
	if s == (Sum{}) {
		return group
	}
	return s
}

func addTo(s Sum, r usage.Row) Sum {
	if s.Start.IsZero() {
		s.Start = fromNanos(0)
	}
	s.Requests++
	if r.Cost != nil {
		s.Cost += *r.Cost
	} else {
		s.Unknown++
	}
	if r.Estimated {
		s.Estimated++
	}
	s.Usage = s.Usage.Add(r.Usage)
	return s
}

// TestLabelBounds sends more end users, values and tag keys than have sums of their own, from two nodes
// at once. A value has all of its requests in its own sum or none, and nothing is missing.
func TestLabelBounds(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		nodes := []*Store{open(), open()}
		const users, keys = labels.MaxValues + 300, labels.MaxKeys + 8
		all := rows("lc", 2*users)
		for i := range all {
			r := &all[i]
			r.Began = noon // of one day
			r.User = fmt.Sprint("user-", i%users)
			r.Tags = []usage.Tag{{Key: fmt.Sprint("key-", i%keys), Value: "x"}, {Key: fmt.Sprint("key-", (i+1)%keys), Value: "y"}, {Key: "team", Value: "other"}}
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var senders sync.WaitGroup
		start := time.Now()
		for g, part := range slices.Collect(slices.Chunk(all, len(all)/4+1)) {
			senders.Go(func() {
				for batch := range slices.Chunk(part, 100) {
					err := put(bg(), nodes[g%2], batch)
					for err != nil && time.Since(start) < time.Minute { // see TestAppendOnce
						err = put(bg(), nodes[g%2], batch)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		senders.Wait()
		checkSums(t, nodes[0], all)

		sums, err := nodes[0].Usage(bg(), UsageQuery{GroupBy: []Group{ByUser}})
		no(t, err)
		var total int64
		for _, s := range sums {
			total += s.Requests
			if want := int64(2*users - 2*labels.MaxValues); s.Label == labels.Other && s.Requests != want || s.Label != labels.Other && s.Requests != 2 {
				t.Errorf("%q has %d requests", s.Label, s.Requests)
			}
		}
		if len(sums) != labels.MaxValues+1 || total != int64(len(all)) {
			t.Errorf("%d end users with %d requests, want %d", len(sums), total, len(all))
		}

		own := 0
		for k := range keys {
			sums, err := nodes[1].Usage(bg(), UsageQuery{GroupBy: []Group{ByTag(fmt.Sprint("key-", k))}})
			no(t, err)
			switch len(sums) {
			case 3: // x, y and the requests without it
				own++
			case 1:
			default:
				t.Errorf("key %d: %+v", k, sums)
			}
		}
		// The tag team is a key too, if it came early.
		if team, err := nodes[0].Usage(bg(), UsageQuery{GroupBy: []Group{ByTag("team")}}); err != nil || len(team) != 1 || own+len(strings.Fields(team[0].Label)) != labels.MaxKeys {
			t.Errorf("%d keys have sums, and the tag team %+v, %v", own, team, err)
		}
		if other, err := nodes[0].Usage(bg(), UsageQuery{Tag: usage.Tag{Key: "other", Value: "other"}}); err != nil || other[0].Requests == 0 {
			t.Errorf("other tags: %+v, %v", other, err)
		}
		// Another day has room for the values that this one has not.
		next := rows("ld", 1)
		next[0].Began, next[0].User = noon.Add(24*time.Hour), "late"
		no(t, put(bg(), nodes[0], next))
		if late, err := nodes[1].Usage(bg(), UsageQuery{User: "late"}); err != nil || late[0].Requests != 1 {
			t.Errorf("the next day: %+v, %v", late, err)
		}
	})
}

// TestHostileLabels checks that labels which no gateway sends, as from a forged spool, harm nothing.
func TestHostileLabels(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		list := rows("le", 1)
		r := &list[0]
		r.User = "a\x00b"
		r.Tags = []usage.Tag{{Key: "team", Value: `'; DROP TABLE requests; --`}, {Key: "team", Value: "twice"}, {Key: "bad key", Value: "x"}, {Key: "esc", Value: "\x1b[2J"},
			{Key: "utf8", Value: "\xff"}, {Key: "", Value: "x"}, {Key: "empty", Value: ""}, {Key: "long", Value: strings.Repeat("x", 65)}, {Key: strings.Repeat("k", 33), Value: "x"}}
		for i := range 10_000 {
			r.Tags = append(r.Tags, usage.Tag{Key: fmt.Sprint("n", i), Value: "v"})
		}
		no(t, put(t.Context(), s, list))
		got, err := s.Rows(t.Context(), RowQuery{Limit: 9})
		no(t, err)
		if len(got) != 1 || got[0].User != "" || len(got[0].Tags) != usage.MaxTags || tagOf(got[0], "team") != `'; DROP TABLE requests; --` || tagOf(got[0], "n0") != "v" {
			t.Errorf("%+v", got)
		}
	})
}
