package alerts

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) {
	if address := os.Getenv("ALERTS_TEST_STORE"); address != "" {
		deliverUntilKilled(address, os.Getenv("ALERTS_TEST_URL"))
		return
	}
	goleak.VerifyTestMain(m)
}

const key = "0123456789abcdef0123456789abcdef"

// deliverUntilKilled is the process that a test kills.
func deliverUntilKilled(address, url string) {
	s, err := store.Open(context.Background(), address, store.Options{})
	if err != nil {
		panic(err)
	}
	sender, err := New(Options{Store: s, Receivers: []Receiver{{Kind: "webhook", URL: secret.String(url), Secret: key}}, Logger: slog.New(slog.DiscardHandler), Lease: time.Second, Timeout: time.Minute})
	if err != nil {
		panic(err)
	}
	sender.Run(context.Background())
}

// receiver is a webhook. It checks signatures and counts what it gets.
type receiver struct {
	*httptest.Server
	t      *testing.T
	answer func(try int, w http.ResponseWriter, r *http.Request) // try is the n-th of its id

	mu       sync.Mutex
	tries    map[string]int
	accepted map[string]int
	bodies   map[string]string
}

func newReceiver(t *testing.T, answer func(try int, w http.ResponseWriter, r *http.Request)) *receiver {
	v := &receiver{t: t, answer: answer, tries: map[string]int{}, accepted: map[string]int{}, bodies: map[string]string{}}
	v.Server = httptest.NewServer(v)
	t.Cleanup(v.Close)
	return v
}

func (v *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		v.t.Error(err)
	}
	id, at := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(id + "." + at + "." + string(body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want || id == "" {
		v.t.Errorf("signature %q, want %q", r.Header.Get("webhook-signature"), want)
	}
	if n, err := strconv.ParseInt(at, 10, 64); err != nil || time.Since(time.Unix(n, 0)).Abs() > time.Minute {
		v.t.Errorf("timestamp %q", at)
	}
	v.mu.Lock()
	v.tries[id]++
	try := v.tries[id]
	if before, ok := v.bodies[id]; ok && before != string(body) {
		v.t.Errorf("another body with the same id: %s, before %s", body, before)
	}
	v.bodies[id] = string(body)
	v.mu.Unlock()
	status := &statusWriter{ResponseWriter: w}
	v.answer(try, status, r)
	if status.code == 200 {
		v.mu.Lock()
		v.accepted[id]++
		v.mu.Unlock()
	}
}

type statusWriter struct {
	http.ResponseWriter
	code int
}

func (w *statusWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// count returns how many alerts were accepted, how often in all, and the number of attempts.
func (v *receiver) count() (alerts, times, tries int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, n := range v.accepted {
		times += n
	}
	for _, n := range v.tries {
		tries += n
	}
	return len(v.accepted), times, tries
}

// each runs a test on a database of each kind with alerts about a key with two budgets, both passed to
// 100 percent.
func each(t *testing.T, test func(t *testing.T, address string, s *store.Store)) {
	for name, address := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "isogloss.db") },
		"postgres": func(t *testing.T) string { return storetest.Postgres(t).URL },
	} {
		t.Run(name, func(t *testing.T) {
			at := address(t)
			s := open(t, at)
			var l quota.Limit
			must(t, l.SetBudgets([]budget.Budget{{Amount: 2 * usage.Dollar, Window: 24 * time.Hour}, {Amount: 5 * usage.Dollar}}))
			must(t, s.CreateTenant(t.Context(), store.Tenant{Org: "a", Name: "Acme"}))
			must(t, s.CreateTenant(t.Context(), store.Tenant{Org: "a", Team: "t", Name: "Search"}))
			must(t, s.CreateKey(t.Context(), access.Record{ID: "k", Name: "ci", Org: "a", Team: "t", Limit: l, Digests: []access.Digest{{Pepper: 1}}}))
			for i := range int64(12) {
				cost := usage.Dollar / 2
				b := usage.Batch{Log: "l", After: i, To: i + 1, Rows: []usage.Row{{ID: fmt.Sprint(i), Key: "k", Team: "t", Org: "a", Began: time.Now(), Cost: &cost}}}
				for range 2 { // a batch may come again
					_, err := s.Append(t.Context(), b)
					must(t, err)
				}
			}
			test(t, at, s)
		})
	}
}

const expected = 6 // alerts: two budgets, three thresholds

func open(t *testing.T, address string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), address, store.Options{Migrate: true, Alerts: store.AlertRules{Thresholds: []int{50, 80, 100}, Receivers: map[string][]string{"budget": {""}}}, Timeout: time.Minute})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run starts a sender.
func run(t *testing.T, s Store, v *receiver, change func(*Options)) *testrig.Log {
	log := &testrig.Log{}
	o := Options{Store: s, Receivers: []Receiver{{Kind: "webhook", URL: secret.String(v.URL + "/CANARY"), Secret: key}}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Poll: 5 * time.Millisecond, Backoff: 2 * time.Millisecond, MaxWait: 20 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	sender, err := New(o)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { sender.Run(ctx) })
	t.Cleanup(func() {
		stop()
		done.Wait()
		if strings.Contains(log.String(), "CANARY") {
			t.Errorf("the log has the address: %s", log)
		}
	})
	return log
}

// waitFor waits for a condition, and then until no alert is due or claimed.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testrig.Eventually(t, what, ok)
}

// left reports whether an alert is not ended, once no lease holds it.
func left(t *testing.T, s *store.Store) bool {
	t.Helper()
	_, found, err := s.ClaimAlert(t.Context(), []string{""}, time.Millisecond)
	must(t, err)
	return found
}

// TestFiveErrorsThenSuccess lets two nodes deliver to a receiver that answers 500 five times.
func TestFiveErrorsThenSuccess(t *testing.T) {
	each(t, func(t *testing.T, address string, s *store.Store) {
		v := newReceiver(t, func(try int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(map[bool]int{true: 500, false: 200}[try <= 5])
		})
		logs := []*testrig.Log{run(t, s, v, nil), run(t, open(t, address), v, nil)}
		waitFor(t, "all alerts are accepted", func() bool { n, _, _ := v.count(); return n == expected })
		n, times, tries := v.count()
		t.Logf("%d alerts accepted %d times in %d attempts", n, times, tries)
		if times != expected || tries != 6*expected {
			t.Errorf("%d accepted, %d attempts, want %d and %d", times, tries, expected, 6*expected)
		}
		if passed := strings.Count(logs[0].String()+logs[1].String(), "budget threshold passed"); passed != expected {
			t.Errorf("%d alerts in the log, want %d", passed, expected)
		}
		seen := map[string]bool{}
		for _, text := range v.bodies {
			var d budgetData
			b := body{Data: &d}
			must(t, json.Unmarshal([]byte(text), &b))
			if b.Type != "budget.threshold_passed" || time.Since(b.Time) > time.Hour || d.Account != "key:k" || d.Name != "ci" || d.Organisation != "a" || d.Team != "t" ||
				d.Window != map[string]int64{"2": 86400, "5": 0}[d.Budget] {
				t.Errorf("%s", text)
			}
			seen[fmt.Sprint(d.Budget, " ", d.Threshold, " ", d.Spent)] = true
		}
		for _, want := range []string{"2 50 1", "2 80 2", "2 100 2", "5 50 2.5", "5 80 4", "5 100 5"} {
			if !seen[want] {
				t.Errorf("no alert with budget, threshold and spent %s: %v", want, seen)
			}
		}
	})
}

// TestKilledDeliverer kills the process that has claimed an alert and waits for the receiver's response.
func TestKilledDeliverer(t *testing.T) {
	each(t, func(t *testing.T, address string, s *store.Store) {
		held := make(chan string, 1)
		v := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			select {
			case held <- r.Header.Get("webhook-id"): // the first one gets no response
				<-r.Context().Done()
			default:
				w.WriteHeader(http.StatusOK)
			}
		})
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), "ALERTS_TEST_STORE="+address, "ALERTS_TEST_URL="+v.URL)
		must(t, child.Start())
		waitFor(t, "the first attempt", func() bool { return len(held) == 1 })
		must(t, child.Process.Kill())
		_ = child.Wait()
		run(t, s, v, nil)
		waitFor(t, "all alerts are accepted", func() bool { n, _, _ := v.count(); return n == expected })
		_, times, tries := v.count()
		if id := <-held; v.tries[id] != 2 || times != expected || tries != expected+1 {
			t.Errorf("%d attempts of the first alert, %d accepted, %d attempts, want 2, %d, %d", v.tries[id], times, tries, expected, expected+1)
		}
		t.Logf("%d alerts accepted %d times in %d attempts", expected, times, tries)
	})
}

// forgetful is the store of a node that loses it after an alert was received.
type forgetful struct {
	*store.Store
	mu    sync.Mutex
	times int
}

func (f *forgetful) EndAlert(ctx context.Context, a store.Alert, delivered bool) error {
	f.mu.Lock()
	f.times--
	lost := f.times >= 0
	f.mu.Unlock()
	if lost { // and the lease ends
		return errors.Join(errors.New("the store is lost"), f.RetryAlert(ctx, a, time.Now()))
	}
	return f.Store.EndAlert(ctx, a, delivered)
}

// TestResultIsLost checks that an alert whose result could not be stored comes again with its id.
func TestResultIsLost(t *testing.T) {
	each(t, func(t *testing.T, _ string, s *store.Store) {
		v := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		log := run(t, &forgetful{Store: s, times: 1}, v, nil)
		waitFor(t, "an alert comes again", func() bool { n, times, _ := v.count(); return n == expected && times == expected+1 })
		if !strings.Contains(log.String(), "it may be sent again") {
			t.Error(log)
		}
	})
}

// TestReceiversThatFail checks that a redirect is not followed, that an endless response does not hold
// up a node, and that an alert is given up.
func TestReceiversThatFail(t *testing.T) {
	each(t, func(t *testing.T, _ string, s *store.Store) {
		elsewhere := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		v := newReceiver(t, func(try int, w http.ResponseWriter, r *http.Request) {
			switch try {
			case 1:
				http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			case 2:
				panic(http.ErrAbortHandler)
			case 3:
				<-r.Context().Done()
			default:
				w.WriteHeader(http.StatusOK)
				for r.Context().Err() == nil {
					if _, err := w.Write(make([]byte, 1<<16)); err != nil {
						return
					}
				}
			}
		})
		run(t, s, v, func(o *Options) { o.Timeout, o.Lease = 200*time.Millisecond, time.Minute })
		waitFor(t, "all alerts are accepted", func() bool { n, _, _ := v.count(); return n == expected })
		if _, _, tries := elsewhere.count(); tries != 0 {
			t.Errorf("%d redirects were followed", tries)
		}
	})
	each(t, func(t *testing.T, _ string, s *store.Store) {
		v := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		log := run(t, s, v, func(o *Options) { o.GiveUp = 300 * time.Millisecond })
		waitFor(t, "all alerts are given up", func() bool { return strings.Count(log.String(), "it is given up") == expected })
		waitFor(t, "no alert is left", func() bool { return !left(t, s) })
	})
}
