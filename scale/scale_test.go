// The tests run on three brokers of Kafka or three nodes of NATS, with the engine of ClickHouse, PostgreSQL and
// three processes of isogloss consume. `make scale` runs them.

package scale

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/kafka"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/ledger"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/nats"
	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/llm"
)

const partitions = 6

// process is a server that the test starts and hurts.
type process struct {
	t    *testing.T
	name string
	args []string
	log  string
	cmd  *exec.Cmd
}

func start(t *testing.T, dir, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, args: args, log: filepath.Join(dir, name+".log")}
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *process) start() {
	p.t.Helper()
	out, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// hurt kills, stops or freezes the process for some time.
func (p *process) hurt(how int, wait time.Duration) {
	p.t.Logf("%s %s", p.name, []string{"killed", "stopped", "frozen"}[how])
	switch how {
	case 0:
		p.kill()
		testrig.Pause(p.t.Context(), wait/4)
		p.start()
	case 1:
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
		p.start()
	case 2:
		_ = p.cmd.Process.Signal(syscall.SIGSTOP)
		testrig.Pause(p.t.Context(), wait)
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is TCP
}

func needs(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Skip(name + " is not set; make scale sets it")
	}
	return value
}

// log is a log that can be written.
type log interface {
	usagelog.Log
	usagelog.Producer
}

func TestKafka(t *testing.T) {
	dir := t.TempDir()
	k := startKafka(t, dir)
	l, err := kafka.New(kafka.Settings{Brokers: k.addresses, Topic: "usage", Partitions: partitions, Replicas: 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, l, k.sink, k.brokers, k.reassign)
}

func TestNATS(t *testing.T) {
	server := needs(t, "ISOGLOSS_NATS_SERVER")
	dir := t.TempDir()
	var ports, routes []string
	for range 3 {
		ports, routes = append(ports, strconv.Itoa(freePort(t))), append(routes, "nats://127.0.0.1:"+strconv.Itoa(freePort(t)))
	}
	var all []*process
	var servers []string
	for i := range 3 {
		all = append(all, start(t, dir, fmt.Sprint("nats-", i), server, "-js", "-sd", filepath.Join(dir, fmt.Sprint("data-", i)), "-a", "127.0.0.1", "-p", ports[i],
			"-n", fmt.Sprint("n", i), "-cluster_name", "c", "-cluster", routes[i], "-routes", strings.Join(routes, ",")))
		servers = append(servers, "nats://127.0.0.1:"+ports[i])
	}
	l := nats.New(nats.Settings{Servers: servers, Stream: "usage", Partitions: partitions, Replicas: 3}, nil)
	run(t, dir, l, fmt.Sprintf("nats: {servers: [%q, %q, %q], stream: usage, partitions: %d, replicas: 3}", servers[0], servers[1], servers[2], partitions), all, nil)
}

// engine is the engine of ClickHouse.
type engine struct {
	url string
	pid int
}

// clickhouse starts the engine.
func clickhouse(t *testing.T, dir string) engine {
	t.Helper()
	cmd := exec.Command(needs(t, "ISOGLOSS_CHDB"), "../internal/ledger/clickhouse/testdata/server.py", "0", filepath.Join(dir, "clickhouse"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("chdb does not start: ", err)
	}
	return engine{"http://127.0.0.1:" + strings.TrimSpace(line), cmd.Process.Pid}
}

// ask returns the response of a query.
func ask(t *testing.T, url, query string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(query)))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return strings.TrimSpace(string(text))
}

// duration is how long a test sends requests.
func duration(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(needs(t, "ISOGLOSS_SCALE"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run sends requests for the time of ISOGLOSS_SCALE while brokers and consumers are hurt, and compares. Move moves
// partitions between brokers, if they can be moved.
func run(t *testing.T, dir string, l log, sink string, brokers []*process, move func()) {
	binary := needs(t, "ISOGLOSS_BINARY")
	engine, postgres := clickhouse(t, dir).url, storetest.Postgres(t).URL
	s, err := store.Open(t.Context(), postgres, store.Options{Migrate: true, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	testrig.Eventually(t, "the store is ready", func() bool { return s.Ready() == nil })
	config := filepath.Join(dir, "isogloss.yaml")
	text := fmt.Sprintf("store: {url: %q, peppers: [0123456789012345678901234567890123456789]}\nusage: {sink: {%s}, clickhouse: {url: %q}}\nproviders: {p: {protocol: openai-chat, base_url: \"http://127.0.0.1:1/v1\", auth: none}}\nmodels: {m: {targets: [p/m]}}\n", postgres, sink, engine)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var consumers []*process
	for i := range 3 {
		consumers = append(consumers, start(t, dir, fmt.Sprint("consumer-", i), binary, "consume", "-c", config))
	}
	if err := testrig.Until(t.Context(), 8*time.Minute, "", func() bool { return l.Create(t.Context()) == nil }); err != nil {
		t.Fatal("the log is not created: ", l.Create(t.Context()))
	}
	ctx, stop := context.WithTimeout(t.Context(), duration(t))
	defer stop()
	var work sync.WaitGroup
	dice := rand.New(rand.NewPCG(1, 1))
	faults := []func(n int){
		func(n int) { consumers[dice.IntN(len(consumers))].hurt(n, 12*time.Second) },
		func(n int) { brokers[dice.IntN(len(brokers))].hurt(n, 10*time.Second) },
	}
	if move != nil {
		faults = append(faults, func(int) { move() })
	}
	caused := 0
	work.Go(func() { caused = hurtAll(ctx, faults) })
	want, count := load(t, ctx, dir, l, s)
	work.Wait()
	t.Logf("%d requests were sent", count)
	compare(t, engine, s, want, count)
	record(t, "%d requests in %v, %d faults", count, duration(t), caused)
	for _, c := range consumers {
		log, _ := os.ReadFile(c.log)
		if bytes.Contains(log, []byte("panic")) {
			t.Errorf("%s: %s", c.name, log)
		}
	}
}

// hurtAll causes one fault after the other, of each in turn killed, stopped and frozen, and returns how many.
func hurtAll(ctx context.Context, faults []func(n int)) int {
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return n
		case <-time.After(5 * time.Second):
		}
		faults[n%len(faults)](n / len(faults) % 3)
	}
}

// load records requests in two spools until ctx ends, one of which is closed and followed by another one all the
// time. It returns the balances.
func load(t *testing.T, ctx context.Context, dir string, l log, s *store.Store) (want map[string]usage.Money, count int) { //nolint:revive // t is first in tests
	t.Helper()
	want = map[string]usage.Money{}
	sink := usagelog.NewSink(l, ledger.Ledger{Store: s}, partitions, eventKey(t))
	open := func(name string) (*spool.Spool, func()) {
		p, err := spool.Open(spool.Options{Dir: filepath.Join(dir, "spool-"+name), Node: name, Keep: -1})
		if err != nil {
			t.Fatal(err)
		}
		drain, end := context.WithCancel(context.Background())
		var work sync.WaitGroup
		work.Go(func() { p.Drain(drain, sink, nil) })
		return p, sync.OnceFunc(func() { end(); work.Wait(); _ = p.Close() })
	}
	first, stop1 := open("a")
	second, stop2 := open("b")
	t.Cleanup(func() { stop1(); stop2() })
	replaced := time.Now()
	for ; ctx.Err() == nil; count++ {
		p := first
		if count%2 == 0 {
			p = second
		}
		if time.Since(replaced) > 15*time.Second {
			stop2() // the next process sends what this one has not
			second, stop2 = open("b")
			replaced = time.Now()
			p = second
		}
		org, cost := fmt.Sprint("org-", count%7), usage.Money(1_000_003+count)
		row := usage.Row{ID: fmt.Sprint("r-", count), Key: "key-" + org, Team: "t", Org: org, Began: time.Now(), Outcome: usage.Answered, Usage: llm.Usage{Input: 3, Output: 4}, Cost: &cost, Model: "m", Target: "p/m"}
		e, err := p.Begin(spool.Opening{ID: row.ID, Key: row.Key, Team: row.Team, Org: org, Began: row.Began})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.End(row); err != nil {
			t.Fatal(err)
		}
		want["org:"+org] += cost
		want["key:key-"+org] += cost
		testrig.Pause(ctx, 500*time.Microsecond)
	}
	return want, count
}

// compare waits until all stores have everything, and fails if one has something twice.
func compare(t *testing.T, engine string, s *store.Store, want map[string]usage.Money, count int) {
	t.Helper()
	expect := fmt.Sprintf("[%d, %d, %d]", count, count, int64(sum(want)/2))
	last := ""
	same := func() bool {
		got := ask(t, engine, "SELECT count(), uniqExact(log, position), sum(cost) FROM requests FORMAT JSONCompactEachRow")
		balances := map[string]usage.Money{}
		for account := range want {
			spent, err := s.Spent(t.Context(), account, time.Now().Add(-2*time.Hour).Truncate(time.Minute))
			if err != nil {
				t.Log(err)
				continue
			}
			balances[account] = spent.Since[0]
		}
		last = fmt.Sprintf("ClickHouse has %s, want %s; the balances are %s, want %s", got, expect, sum(balances), sum(want))
		return got == expect && fmt.Sprint(balances) == fmt.Sprint(want)
	}
	if err := testrig.Until(t.Context(), 3*time.Minute, "", same); err != nil {
		t.Fatal(last)
	}
	t.Log(last)
}

func sum(m map[string]usage.Money) (total usage.Money) {
	for _, n := range m {
		total += n
	}
	return total
}

// eventKey is the key of the MACs of events with the pepper of the configurations.
func eventKey(t *testing.T) usagelog.Key {
	t.Helper()
	peppers, err := access.NewPeppers([]secret.String{"0123456789012345678901234567890123456789"})
	if err != nil {
		t.Fatal(err)
	}
	key, err := peppers.Derive("usage events")
	if err != nil {
		t.Fatal(err)
	}
	return key
}
