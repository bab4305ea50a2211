package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// ledger is what the usage of a fleet needs: a log of events and a ClickHouse that the attacker runs, a real
// PostgreSQL, and a process that consumes the log.
type ledger struct {
	dir               string
	postgres          *storetest.Server
	broker            *broker
	server, elsewhere *httptest.Server
	astray            atomic.Int64
	consumer          *exec.Cmd
	ended             chan struct{}

	mu       sync.Mutex
	inserted strings.Builder // rows that the consumer has inserted
	answer   *hostile.Server // of queries; nil: an empty result
}

func newLedger() *ledger {
	l := &ledger{dir: testrig.Must(os.MkdirTemp("", "redteam-ledger-")), broker: newBroker()}
	l.elsewhere = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { l.astray.Add(1) }))
	l.server = httptest.NewServer(http.HandlerFunc(l.serve))
	return l
}

// serve plays ClickHouse.
func (l *ledger) serve(w http.ResponseWriter, r *http.Request) {
	text := []byte{}
	if z, err := gzip.NewReader(r.Body); err == nil {
		text, _ = io.ReadAll(z) // of a gateway that may have gone
	}
	l.mu.Lock()
	answer := l.answer
	if strings.HasPrefix(r.URL.Query().Get("query"), "INSERT") {
		l.inserted.Write(text)
	}
	l.mu.Unlock()
	if answer != nil && strings.HasPrefix(string(text), "SELECT") {
		answer.ServeHTTP(w, r)
	}
}

func (l *ledger) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.inserted.String(), text)
}

func (l *ledger) close() {
	if l.consumer != nil {
		_ = l.consumer.Process.Signal(syscall.SIGKILL) // it may have ended
		<-l.ended
	}
	l.broker.close()
	l.server.CloseClientConnections()
	l.server.Close()
	l.elsewhere.Close()
	if l.postgres != nil {
		l.postgres.Close()
	}
	_ = os.RemoveAll(l.dir)
}

// ledgerConfig is the configuration of a gateway and a consumer.
func (l *ledger) config(r *rig) *config {
	c := (&config{keys: standardKeys()}).standard(r.up)
	c.top = append([]string{"store: sqlite"}, c.top...)
	if !r.weak {
		c.top[0] = fmt.Sprintf("store: { url: %q, peppers: [%s] }", l.postgres.URL, strings.Repeat("pepper-canary-", 5))
	}
	c.top = append(c.top, "data: data", "usage:", fmt.Sprintf("  sink: { nats: { servers: [%q], stream: %s, partitions: 1, replicas: 1 } }", "nats://"+l.broker.Addr().String(), stream),
		fmt.Sprintf("  clickhouse: { url: %q, username: u, password: %q }", l.server.URL, headerSecret))
	return c
}

// ledgerRig starts the servers and a gateway.
func ledgerRig(ctx context.Context, o options) (*rig, error) {
	var l *ledger
	if err := testrig.Run(func() { l = newLedger() }); err != nil {
		return nil, err
	}
	var err error
	if !o.prove {
		if l.postgres, err = storetest.RunPostgres(l.dir); err != nil {
			l.close()
			return nil, err
		}
	}
	r, err := start(func(r *rig) *config {
		r.ledger = l
		return l.config(r)
	})(ctx, o)
	if r == nil {
		l.close()
	}
	return r, err
}

// consumerRig starts a consumer as well, and checks that it stores an event.
func consumerRig(ctx context.Context, o options) (*rig, error) {
	r, err := ledgerRig(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := testrig.Run(func() {
		r.consume()
		e := &evidence{}
		r.stored(ctx, e, "control", "")
		if len(e.problems) > 0 {
			testrig.NoError(fmt.Errorf("the consumer stores nothing: %s", strings.Join(e.problems, "; ")))
		}
	}); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// consume starts the consumer.
func (r *rig) consume() {
	l := r.ledger
	cmd := exec.Command(testrig.Must(filepath.Abs(r.bin)), "consume", "-c", r.gateway.Config)
	cmd.Env = slices.Clone(r.gateway.Env)
	if r.weak {
		cmd.Env = append(cmd.Env, weakVariable+"=1")
	}
	log := testrig.Must(os.Create(filepath.Join(l.dir, "consumer.log")))
	defer log.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.gateway.Dir, log, log
	testrig.NoError(cmd.Start())
	l.consumer, l.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(l.ended)
	}()
}

// stored has the gateway serve a request, and waits until the consumer has stored it. The weak gateway sends
// nothing to the log, so that only what was there is stored.
func (r *rig) stored(ctx context.Context, e *evidence, name, hostile string) {
	l := r.ledger
	ended := func() bool {
		select {
		case <-l.ended:
			return true
		default:
			return false
		}
	}
	if r.weak {
		_ = testrig.Until(ctx, patience, "", func() bool { return ended() || hostile == "" || l.has(hostile) }) // judged by the caller
		return
	}
	model := "honest-" + name
	q := generate("chat", testrig.Chat, "chat").request("full")
	q.body = strings.Replace(q.body, "chat/m", "chat/"+model, 1)
	if got := r.send(ctx, q); got.status != 200 {
		testrig.NoError(errorStatus("a request is not served", got))
	}
	err := testrig.Until(ctx, patience, "", func() bool { return ended() || l.has(model) })
	e.problem(err != nil, "an honest event after it is not stored")
	if ended() {
		text, _ := os.ReadFile(filepath.Join(l.dir, "consumer.log")) // a missing file is an empty log
		e.problem(true, "the consumer has ended: %s", testrig.Clip(string(text), 2000))
	}
}

// honestEvent returns the event of one request.
func honestEvent(log, id string) string {
	return fmt.Sprintf(`{"v":1,"log":%q,"position":1,"id":%q,"time":%q,"duration_ns":5,"org":"a","outcome":"answered","gen_ai.usage.input_tokens":1,"cost_nano_usd":1}`, log, id, time.Now().UTC().Format(time.RFC3339))
}

// honestRefusal returns the event of requests that a gateway has refused.
func honestRefusal(log, id string) string {
	return fmt.Sprintf(`{"v":1,"log":%q,"key":%q,"org":"a","refused":"limit","minute":%q,"count":5}`, log, id, time.Now().UTC().Truncate(time.Minute).Format(time.RFC3339))
}

// recordAttacks put messages into the log that no gateway writes. The consumer stores none of their events, lives,
// and stores the next honest one.
func recordAttacks() (all []attack) {
	add := func(name string, message func(log, id string) (header, body string)) {
		n := len(all)
		do := func(ctx context.Context, r *rig) *evidence {
			log, id := fmt.Sprint("hostile-log-", n), fmt.Sprintf("hostile-event-%d-", n)
			header, body := message(log, id)
			body += "\n" + id + "\n" // no event, and a mark if the rest has none
			r.ledger.broker.add("isogloss-batch: "+header+"\r\n", body)
			e := &evidence{sent: header + "\n" + testrig.Clip(body, 2000)}
			r.stored(ctx, e, fmt.Sprint(n), id)
			e.problem(r.ledger.has(id), "an event of it is stored")
			return e
		}
		all = append(all, attack{name: "records/" + name, do: do})
	}
	for name, header := range map[string]string{
		"none": "", "empty-log": "/0/0/1", "no-numbers": "LOG", "three": "LOG/0/1", "five": "LOG/0/0/1/2", "partition": "LOG/1/0/1", "partition-negative": "LOG/-1/0/1", "partition-huge": "LOG/99999999999999999999/0/1", "after-negative": "LOG/0/-5/1", "reversed": "LOG/0/5/1", "to-overflow": "LOG/0/0/9223372036854775808", "to-float": "LOG/0/0/1.5", "to-hex": "LOG/0/0/0x10",
		"plus": "LOG/+0/0/x", "spaces": "LOG / 0 / 0 / 1", "long": strings.Repeat("a", 600) + "/0/0/1", "gap": "LOG/0/7/9", "slashes": "////", "not-ascii": "LOG/\u0660/0/1", "underscore": "LOG/0/0/1_0", "other-log": "another-LOG/0/0/1", "position-beyond": "LOG/0/0/0",
	} {
		add("header/"+name, func(log, id string) (string, string) {
			return strings.ReplaceAll(header, "LOG", log), honestEvent(log, id) + "\n"
		})
	}
	for _, a := range hostile.Answers(honestRefusal("l", "i"), "http://elsewhere") {
		if a.Text == "" {
			continue
		}
		add("refusal/"+a.Name, func(log, id string) (string, string) {
			for _, one := range hostile.Answers(honestRefusal(log, id), "http://elsewhere") {
				if one.Name == a.Name {
					return log + "/0/0/1", one.Text
				}
			}
			return "", ""
		})
	}
	refused := []string{"v", "log", "position", "id", "time", "cost_nano_usd", "gen_ai.usage.input_tokens", "duration_ns", "outcome", "org"}
	for _, a := range hostile.Answers(honestEvent("l", "i"), "http://elsewhere") {
		member, value, changed := strings.Cut(a.Name, " is ")
		if a.Text == "" || changed && (!slices.Contains(refused, member) || readable(member, value)) || a.Name == "two" {
			continue
		}
		add("event/"+a.Name, func(log, id string) (string, string) {
			for _, one := range hostile.Answers(honestEvent(log, id), "http://elsewhere") {
				if one.Name == a.Name {
					return log + "/0/0/1", one.Text
				}
			}
			return "", ""
		})
	}
	for name, body := range map[string]string{"big": strings.Repeat("EVENT\n", 60_000), "packed": "\x1f\x8b\x08\x00\x00\x00\x00\x00", "parquet": "PAR1", "binary": string(make([]byte, 1<<16)), "lines": strings.Repeat("\n", 1<<20), "one-line": strings.Repeat("EVENT ", 1000), "separator": "\x1eEVENT", "utf16": "\xff\xfe{\x00"} {
		add("body/"+name, func(log, id string) (string, string) {
			return log + "/0/0/1", strings.ReplaceAll(body, "EVENT", honestEvent(log, id))
		})
	}
	return all
}

// readable reports whether an event with a change is one that a consumer may store.
func readable(member, value string) bool {
	text := strings.HasPrefix(value, `"\"`) && value != `"\"\""`
	null := value == `"null"` || value == "missing"
	whole := slices.Contains([]string{`"-1"`, `"0"`, `"9223372036854775807"`, `"-9223372036854775807"`, `"-9223372036854775808"`}, value)
	switch member {
	case "v":
		return value == `"9223372036854775807"` // a newer version, which is parked
	case "log", "position":
		return false
	case "id":
		return text
	case "time":
		return null || strings.Contains(value, "Z\\\"") && !strings.Contains(value, "2026-13")
	case "outcome", "org":
		return text || null || value == `"\"\""`
	}
	return null || whole
}

// clickhouseAttacks have ClickHouse answer the gateway's queries. No answer that it does not send is shown.
func clickhouseAttacks() (all []attack) {
	answers := func(elsewhere string) (all []hostile.Answer) {
		for _, a := range hostile.Answers(`{"data":[["m","5"]],"rows":1}`, elsewhere) {
			if !strings.Contains(a.Name, " is ") && a.Name != "empty" && a.Name != "slow" && a.Name != "silent" {
				all = append(all, a)
			}
		}
		const columns = 30
		for _, n := range []int{0, 1, 2, 11, 100} {
			all = append(all, hostile.Fixed(fmt.Sprint("columns ", n), "["+strings.TrimSuffix(strings.Repeat(`"1",`, n), ",")+"]"))
		}
		for _, value := range hostile.Values() {
			if !strings.HasPrefix(value, `"`) {
				all = append(all, hostile.Fixed("name "+hostile.Clip(value), "["+value+strings.Repeat(`,"1"`, columns)+"]"))
			}
			if value != "-1" && value != "0" && value != "9223372036854775807" {
				all = append(all, hostile.Fixed("count "+hostile.Clip(value), `["m",`+value+strings.Repeat(`,"1"`, columns-1)+"]"))
			}
		}
		for name, text := range map[string]string{"html": "<script>alert(1)</script>", "escape": terminalTexts["clear"], "secret": "Code: 516. DB::Exception: u: Authentication failed: password " + headerSecret, "query": "Code: 62. Syntax error: SELECT secret-of-the-query"} {
			all = append(all, hostile.Failing(name, http.StatusInternalServerError, text))
		}
		return all
	}
	for _, path := range []string{"/api/v1/usage?group=model", "/api/v1/requests?limit=5"} {
		for _, a := range answers("http://elsewhere") {
			do := func(ctx context.Context, r *rig) *evidence {
				h := hostile.New()
				for _, real := range answers(r.ledger.elsewhere.URL) {
					if real.Name == a.Name {
						h.Answer = real
					}
				}
				r.ledger.mu.Lock()
				r.ledger.answer = h
				r.ledger.mu.Unlock()
				before := testrig.ProcessMemory(r.gateway.PID(), "VmRSS")
				e := r.send(ctx, request{method: "GET", path: path, key: "owner", admin: true})
				e.sent = "the answer " + a.Name + " of ClickHouse to " + e.sent
				n := r.ledger.astray.Swap(0)
				e.problem(n > 0, "%d requests went to another server", n)
				grown := testrig.ProcessMemory(r.gateway.PID(), "VmHWM") - before
				e.problem(strings.HasPrefix(a.Name, "endless") && grown > storeMemory, "memory has grown by %.0f MB", grown/1e6)
				return e
			}
			all = append(all, attack{name: "clickhouse" + strings.Split(path, "?")[0] + "/" + a.Name, do: do, holds: []oracle{serves(500, 502, 503, 504), lacks("<script", "\x1b", "secret-of-the-query")}})
		}
	}
	return all
}
