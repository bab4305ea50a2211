package observe

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// TestLogRate checks that a node at 10,000 requests a second writes few lines, that those
// of all unusual exchanges are there, and that the log and the metrics say how many are not.
func TestLogRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, seconds, perSecond = 20, 30, 2000
		o, log := open(t, Options{LogRate: rate, Slow: 5 * time.Second})
		want := map[string]bool{}
		failures := []func(x *Exchange){
			func(x *Exchange) { x.Err = &llm.Error{Kind: llm.Upstream} },
			func(x *Exchange) { x.Err = &llm.Error{Kind: llm.Internal} },
			func(x *Exchange) { x.Attempts = 2 },
			func(x *Exchange) { x.Continued = 1 },
			func(x *Exchange) { x.Failed(&llm.Error{Kind: llm.Overloaded}) },
			func(x *Exchange) { x.Token(x.start.Add(6 * time.Second)) },
			func(x *Exchange) { x.start = x.start.Add(-6 * time.Second) },
		}
		for second := range seconds {
			for i := range perSecond {
				x := begin(o)
				x.id = fmt.Sprintf("id-%d-%d", second, i)
				x.Route("m", "p", x.Target)
				x.Attempts, x.Status = 1, 200
				switch {
				case i%100 == 0:
					failures[(second*perSecond+i)/100%len(failures)](x)
					want[x.id] = true
				case i%2 == 0:
					x.Status, x.Err = 0, &llm.Error{Kind: llm.InvalidRequest}
				}
				x.End()
			}
			time.Sleep(time.Second)
		}
		x := begin(o)
		x.Status = 200
		x.End() // reports what was suppressed
		written := map[string]int{}
		var told float64
		for _, l := range lines(t, log) {
			switch {
			case l["msg"] == suppressedMsg:
				told += l["ordinary"].(float64) + l["client_errors"].(float64)
			case want[l["id"].(string)]:
				delete(want, l["id"].(string))
			default:
				written[l["outcome"].(string)]++
			}
		}
		if len(want) > 0 {
			t.Errorf("%d unusual exchanges have no line: %v", len(want), want)
		}
		if most := rate * (seconds + burstSeconds + 1); written["ok"] > most || written["ok"] < rate*seconds {
			t.Errorf("%d lines of ordinary exchanges, want at most %d", written["ok"], most)
		}
		if most := clientRate * rate * (seconds + burstSeconds + 1); written["client_error"] > most || written["client_error"] < clientRate*rate*seconds {
			t.Errorf("%d lines of clients' errors, want at most %d", written["client_error"], most)
		}
		total := float64(seconds*perSecond + 1)
		if kept := float64(written["ok"] + written["client_error"] + seconds*perSecond/100); told != total-kept {
			t.Errorf("the log tells of %v exchanges without a line, want %v", told, total-kept)
		}
		if !strings.Contains(scrape(t, o), `isogloss_log_suppressed_total{class="ordinary"} `+fmt.Sprint(seconds*perSecond/2+1-written["ok"])) {
			t.Error("the metric has another number")
		}
	})
}

// TestLastReport checks that Close reports what was suppressed.
func TestLastReport(t *testing.T) {
	o, log := open(t, Options{LogRate: 1})
	for range burstSeconds + 5 {
		x := begin(o)
		x.Status = 200
		x.End()
	}
	if strings.Contains(log.String(), suppressedMsg) {
		t.Error("reported at once")
	}
	if err := o.Close(t.Context()); err != nil || !strings.Contains(log.String(), `"ordinary":5`) {
		t.Errorf("%v, the log has no report:\n%s", err, log)
	}
}

// TestUnusualExchangesAreTraced checks that spans of failed and slow exchanges are sent
// with a sample of 0, with their attempts, and no others.
func TestUnusualExchangesAreTraced(t *testing.T) {
	r := newReceiver(t)
	o, _ := open(t, Options{Traces: exporters(t, r.URL).Traces, Slow: time.Hour})
	for i := range 20 {
		x := begin(o)
		x.id = fmt.Sprintf("ok-%d", i)
		x.Route("m", "p", x.Target)
		x.Status, x.Attempts = 200, 1
		x.End()
	}
	x := begin(o)
	x.id = "fallback"
	x.Route("m", "p1", x.Target)
	x.Failed(&llm.Error{Kind: llm.Overloaded})
	x.Route("m", "p2", x.Target)
	x.Status, x.Attempts = 200, 2
	x.End()
	x = begin(o)
	x.id = "slow"
	x.Route("m", "p3", x.Target)
	x.start = x.start.Add(-time.Hour)
	x.Status, x.Attempts = 200, 1
	x.End()
	if err := o.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range r.spans {
		names = append(names, s.Name)
	}
	if got, want := strings.Join(names, ", "), "upstream p1, upstream p2, chat m, upstream p3, chat m"; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

// BenchmarkSuppressed measures an ordinary exchange beyond the rate of the log.
func BenchmarkSuppressed(b *testing.B) {
	o, err := New(Options{Log: io.Discard, LogRate: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		recordSuccess(o, "m", "p")
	}
}
