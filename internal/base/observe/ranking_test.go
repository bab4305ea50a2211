package observe

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// TestSeriesAreBounded checks the number of series after requests for 100,000 models by
// many keys.
func TestSeriesAreBounded(t *testing.T) {
	o, log := open(t, Options{})
	o.Watch(func() Live {
		var live Live
		for i := range 100_000 {
			live.Targets = append(live.Targets, LiveTarget{Target: "p/m" + strconv.Itoa(i), Ready: i != 99_999})
		}
		return live
	})
	for i := range 20_000 {
		x := begin(o)
		x.Stream = i%2 == 0
		x.Org, x.Team, x.Key, x.Model = fmt.Sprintf("o%d", i%200), fmt.Sprintf("t%d", i%400), fmt.Sprintf("k%d", i%800), fmt.Sprintf("m%d", i)
		x.Route(x.Model, "p", x.Target)
		cost := int64(1000)
		x.Status, x.Usage, x.Cost = 200, &llm.Usage{Input: 1, Output: 1, CacheRead: 1, CacheWrite: 1, Reasoning: 1}, &cost
		if i == 19_999 {
			log.Reset()
		}
		x.End()
	}
	page := scrape(t, o)
	series := strings.Count("\n"+page, "\nisogloss_")
	if series > 40_000 {
		t.Errorf("%d series", series)
	}
	t.Logf("%d series, %d bytes", series, len(page))
	has(t, o, `target_ready{target="p/m99999"} 0`, `target_ready{target="other"} 1`)
	if l := one(t, log); l["model"] != "m19999" {
		t.Errorf("the log line has the model %v", l["model"])
	}
}

// TestBusyModelGetsItsName checks that a model with much use is named although others came
// first and there are far more models than are tracked, that the model that loses its name
// keeps counting as "other", and that an exchange in flight does not bring it back.
func TestBusyModelGetsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := open(t, Options{})
		for i := range maxRoutes {
			recordSuccess(o, "early"+strconv.Itoa(i), "p")
		}
		open := make([]*Exchange, maxRoutes) // one of each named model
		for i := range open {
			open[i] = begin(o)
			open[i].Route("early"+strconv.Itoa(i), "p", "")
		}
		for i := range 20_000 {
			recordSuccess(o, fmt.Sprintf("rare%d", i), "p")
			if i%20 == 0 {
				recordSuccess(o, "busy", "p")
			}
		}
		has(t, o, `cancels_total{model="other",provider="p"} 0`)
		time.Sleep(rankEvery)
		recordSuccess(o, "early0", "p")
		recordSuccess(o, "busy", "p")
		has(t, o, `tokens_total{kind="input",model="busy",provider="p"} 1`,
			`tokens_total{kind="input",model="other",provider="p"} 21000`)
		for _, x := range open {
			x.Status, x.Usage = 200, &llm.Usage{Input: 1}
			x.End()
		}
		page := scrape(t, o)
		if n := strings.Count(page, "isogloss_requests_in_flight{"); n > maxRoutes+1 {
			t.Errorf("%d pairs", n)
		}
		if n := strings.Count(page, "isogloss_request_duration_seconds_count{"); n > maxRoutes+1 {
			t.Errorf("%d label sets of durations: an exchange in flight has brought a model back", n)
		}
	})
}

// TestBusyPoolGetsItsName checks the same for discovered models.
func TestBusyPoolGetsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := open(t, Options{})
		for i := range 3 * maxPools {
			x := begin(o)
			m := "m" + strconv.Itoa(i)
			x.Route(m, "discovered/"+m, x.Target)
			x.Failed(&llm.Error{Kind: llm.Upstream})
			x.End()
		}
		for range 50 {
			recordSuccess(o, "busy", "discovered/busy")
		}
		has(t, o, `tokens_total{kind="input",model="other",provider="discovered"} 50`)
		time.Sleep(rankEvery)
		recordSuccess(o, "m0", "discovered/m0")
		recordSuccess(o, "busy", "discovered/busy")
		has(t, o, `tokens_total{kind="input",model="busy",provider="discovered/busy"} 1`)
		if n := strings.Count(scrape(t, o), "isogloss_upstream_errors_total{"); n > maxPools+1 {
			t.Errorf("%d series of errors", n)
		}
	})
}

// TestRankingWithManyGoroutines gives the race detector something to find.
func TestRankingWithManyGoroutines(t *testing.T) {
	o, _ := open(t, Options{})
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for range 500 {
				recordSuccess(o, "m"+strconv.Itoa(rand.IntN(3*maxRoutes)), "p")
				o.metrics.ranked.Store(0)
			}
		})
	}
	g.Wait()
}

// BenchmarkManyModels measures one exchange with 100,000 models.
func BenchmarkManyModels(b *testing.B) {
	o, err := New(Options{Log: discard{}})
	if err != nil {
		b.Fatal(err)
	}
	names := make([]string, 100_000)
	for i := range names {
		names[i] = "m" + strconv.Itoa(i)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		recordSuccess(o, names[i%len(names)], "p")
		i++
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
