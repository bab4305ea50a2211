package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// usageRows returns rows of six days with few values of each column. They are not in the order of time.
func usageRows(random *rand.Rand, n int) []usage.Row {
	list := make([]usage.Row, n)
	for i := range list {
		key := random.IntN(6)
		model := fmt.Sprint("m", random.IntN(3))
		r := usage.Row{
			ID: uuid.NewString(), Org: fmt.Sprint("o", key%2), Team: []string{"", "t1", "t2"}[key%3], Key: fmt.Sprint("k", key), Model: model, Target: fmt.Sprintf("p%d/%s", random.IntN(2), model),
			Began: noon.Add(-time.Duration(random.Int64N(int64(6 * 24 * time.Hour)))), Took: time.Second, Status: 200,
			Outcome: []usage.Outcome{usage.Answered, usage.Answered, usage.Failed, usage.Refused, usage.Lost}[random.IntN(5)], Estimated: random.IntN(5) == 0,
			Usage: llm.Usage{Input: random.Int64N(100), CacheRead: random.Int64N(100), CacheWrite: random.Int64N(9), Output: random.Int64N(50), Reasoning: random.Int64N(9)},
		}
		if random.IntN(6) > 0 {
			r.Cost = new(usage.Money(random.Int64N(1e6)))
		}
		if random.IntN(2) == 0 {
			r.FirstToken = time.Duration(random.Int64N(int64(12 * time.Second)))
		}
		if random.IntN(2) == 0 {
			r.User = fmt.Sprint("u", random.IntN(4))
		}
		if random.IntN(3) > 0 {
			r.Tags = []usage.Tag{{Key: "feature", Value: fmt.Sprint("f", random.IntN(3))}}
		}
		if random.IntN(3) == 0 {
			for n := range r.Usage.Other {
				r.Usage.Other[n] = random.Int64N(9)
			}
		}
		list[i] = r
	}
	return list
}

// randomUsage returns a random question.
func randomUsage(random *rand.Rand) (q UsageQuery) {
	one := func(values ...string) string { return values[random.IntN(len(values))] }
	maybe := func(to *string, values ...string) {
		if random.IntN(4) == 0 {
			*to = one(values...)
		}
	}
	at := func() time.Time { return noon.Add(-time.Duration(random.IntN(7*24*60)) * time.Minute) }
	switch a, b := at(), at(); random.IntN(4) {
	case 0: // all
	case 1:
		q.From = a
	case 2:
		q.From, q.To = a.Truncate(24*time.Hour), b.Truncate(24*time.Hour)
	default:
		q.From, q.To = a, b
	}
	if !q.To.IsZero() && q.To.Before(q.From) {
		q.From, q.To = q.To, q.From
	}
	maybe(&q.Org, "o0", "o1", "none")
	maybe(&q.Team, "t1", "t2")
	maybe(&q.Key, "k1", "k4")
	maybe(&q.Model, "m0", "m2")
	maybe(&q.Target, "p0/m0", "p1/m2")
	label := one("", "", string(ByUser), string(ByTag("feature")))
	if label != "" && random.IntN(3) == 0 {
		if label == string(ByUser) {
			q.User = one("u0", "u3", "nobody")
		} else {
			q.Tag = usage.Tag{Key: "feature", Value: one("f0", "f2", "none")}
		}
	}
	groups := []Group{ByOrg, ByTeam, ByKey, ByModel, ByTarget}
	groups = append(groups, Group(one(string(ByHour), string(ByDay), string(ByDay))))
	if label != "" {
		groups = append(groups, Group(label))
	}
	random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	q.GroupBy = groups[:random.IntN(4)]
	return q
}

// usageOf sums rows as a query asks, without any table.
func usageOf(q *UsageQuery, rows []usage.Row) []Sum {
	sums := map[Sum]Sum{}
	if len(q.GroupBy) == 0 {
		sums[Sum{}] = Sum{}
	}
	for _, r := range rows {
		refused := r.Outcome == usage.Refused // counted without model, target and labels
		if refused {
			r.Model, r.Target, r.Labels = "", "", usage.Labels{}
		}
		feature := tagOf(r, "feature")
		hour := r.Began.Truncate(time.Hour)
		is := func(filter, value string) bool { return filter == "" || filter == value }
		if !is(q.Org, r.Org) || !is(q.Team, r.Team) || !is(q.Key, r.Key) || !is(q.Model, r.Model) || !is(q.Target, r.Target) || !is(q.User, r.User) || !is(q.Tag.Value, feature) ||
			hour.Before(q.From.Truncate(time.Hour)) || !q.To.IsZero() && !hour.Before(q.To) {
			continue
		}
		var k Sum
		for _, g := range q.GroupBy {
			switch g {
			case ByHour:
				k.Start = hour
			case ByDay:
				k.Start = r.Began.Truncate(24 * time.Hour)
			case ByOrg:
				k.Org = r.Org
			case ByTeam:
				k.Org, k.Team = r.Org, r.Team
			case ByKey:
				k.Key = r.Key
			case ByModel:
				k.Model = r.Model
			case ByTarget:
				k.Target = r.Target
			case ByUser:
				k.Label = r.User
			default:
				k.Label = feature
			}
		}
		s := sums[k]
		s.Start, s.Org, s.Team, s.Key, s.Model, s.Target, s.Label = k.Start, k.Org, k.Team, k.Key, k.Model, k.Target, k.Label
		if refused {
			s.Refused++
			sums[k] = s
			continue
		}
		s.Requests++
		if r.Cost == nil {
			s.Unknown++
		} else {
			s.Cost += *r.Cost
		}
		if r.Estimated {
			s.Estimated++
		}
		if r.Outcome == usage.Failed || r.Outcome == usage.Lost {
			s.Errors++
		}
		s.Usage = s.Usage.Add(r.Usage)
		s.FirstToken.Add(r.FirstToken)
		sums[k] = s
	}
	return slices.Collect(maps.Values(sums))
}

// TestUsageIsExact compares random questions, which the tables of sums answer, with sums of the rows. Rows come
// late, for days that have sums already, and some come twice.
func TestUsageIsExact(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		seed := uint64(time.Now().UnixNano())
		t.Log("seed", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		s := open()
		all := usageRows(random, 900)
		for batch := range slices.Chunk(all, 100) {
			no(t, put(bg(), s, batch))
		}
		no(t, put(bg(), s, slices.Concat(all[50:90], all[700:720]))) // again, as another log
		var refused usage.Refusals
		for _, r := range all {
			if r.Outcome == usage.Refused {
				refused.Counts = append(refused.Counts, usage.RefusalCount{Log: r.ID, Org: r.Org, Team: r.Team, Key: r.Key, Reason: usage.RefusedLimit, Minute: r.Began, Count: 1})
			}
		}
		no(t, s.AppendRefusals(bg(), refused))
		no(t, s.AppendRefusals(bg(), refused))
		for range 150 {
			q := randomUsage(random)
			got, err := s.Usage(bg(), q)
			no(t, err)
			inOrder := slices.Clone(got)
			text := func(s Sum) string { return fmt.Sprintf("%+v", s) }
			byText := func(a, b Sum) int { return strings.Compare(text(a), text(b)) }
			want := usageOf(&q, all)
			slices.SortFunc(want, byText)
			slices.SortFunc(inOrder, byText)
			if !reflect.DeepEqual(inOrder, want) {
				t.Fatalf("%+v:\ngot  %+v\nwant %+v", q, inOrder, want)
			}
		}
	})
}
