package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// models are the settings of a model with prices.
func models(upstream string) string {
	return fmt.Sprintf("providers: {p: {protocol: openai-chat, base_url: %q, auth: none}}\nmodels: {m: {targets: [p/m]}}\nprices: {models: {\"p/*\": {input: 1, output: 10}}}\n", upstream)
}

// budget is that of one of the keys.
const budget = 2 * usage.Dollar / 100

// fleet is three gateways with all that belongs to them.
type fleet struct {
	t         *testing.T
	dir       string
	settings  string // those of all gateways and consumers
	gateways  []*process
	addresses []string
	consumers []*process
	keys      [2]struct{ ID, Key string } // without a budget, and with one

	mu       sync.Mutex
	answered []string // ids of complete responses
	refused  atomic.Int64
	failed   atomic.Int64
}

// TestServe runs gateways of the built binary with PostgreSQL, Redis, Kafka and ClickHouse. Gateways, consumers,
// brokers and Redis are killed, and gateways and consumers also stopped and frozen. Each request that a client has a response
// of is stored once, the balances are the sums of the requests, and the budget is not exceeded.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	kafka := startKafka(t, dir)
	redis, postgres := storetest.Redis(t), storetest.Postgres(t).URL
	engine := clickhouse(t, dir).url
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		testrig.Pause(r.Context(), 10*time.Millisecond) // as long as a model takes
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}`)
	}))
	defer upstream.Close()
	f := &fleet{t: t, dir: dir, settings: fmt.Sprintf("store: {url: %q, peppers: [0123456789012345678901234567890123456789]}\nredis: {url: %q}\nusage: {sink: {%s}, clickhouse: {url: %q}}\n%s", postgres, redis.URL, kafka.sink, engine, models(upstream.URL+"/v1"))}
	f.start()
	ctx, stop := context.WithTimeout(t.Context(), duration(t))
	defer stop()
	dice := rand.New(rand.NewPCG(3, 3))
	var work sync.WaitGroup
	caused := 0
	work.Go(func() {
		caused = hurtAll(ctx, []func(int){
			func(n int) { f.gateways[dice.IntN(len(f.gateways))].hurt(n, 8*time.Second) },
			func(n int) { f.consumers[dice.IntN(len(f.consumers))].hurt(n, 12*time.Second) },
			func(int) { kafka.brokers[dice.IntN(3)].hurt(0, 10*time.Second) },
			func(int) {
				t.Log("redis killed")
				redis.Kill()
				testrig.Pause(ctx, 3*time.Second)
				if err := redis.Start(); err != nil {
					t.Error(err)
				}
			},
			func(int) { kafka.reassign() },
		})
	})
	for i := range 8 {
		work.Go(func() { f.load(ctx, i) })
	}
	work.Wait()
	t.Logf("%d complete responses, %d refused by the budget, %d without a response", len(f.answered), f.refused.Load(), f.failed.Load())
	if len(f.answered) == 0 || f.refused.Load() == 0 {
		t.Error("there should be responses and refusals")
	}
	s, err := store.Open(t.Context(), postgres, store.Options{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f.compare(engine, s)
	record(t, "%d responses in %v, %d faults, %d requests refused by the budget", len(f.answered), duration(t), caused, f.refused.Load())
}

// start starts the gateways and consumers and creates the keys.
func (f *fleet) start() {
	f.t.Helper()
	binary := needs(f.t, "ISOGLOSS_BINARY")
	file := func(name, more string) string {
		path := filepath.Join(f.dir, name+".yaml")
		if err := os.WriteFile(path, []byte(f.settings+more), 0o600); err != nil {
			f.t.Fatal(err)
		}
		return path
	}
	config := file("consumer", "")
	for i := range 2 {
		f.consumers = append(f.consumers, start(f.t, f.dir, fmt.Sprint("consumer-", i), binary, "consume", "-c", config))
	}
	for i := range 3 {
		name, address := fmt.Sprint("gw-", i), "127.0.0.1:"+strconv.Itoa(freePort(f.t))
		path := file(name, fmt.Sprintf("node: %s\ndata: %s\nlisten: %q\nadmin: {listen: \"127.0.0.1:%d\"}\n", name, filepath.Join(f.dir, "data-"+name), address, freePort(f.t)))
		f.gateways, f.addresses = append(f.gateways, start(f.t, f.dir, name, binary, "serve", "-c", path)), append(f.addresses, address)
	}
	for i, more := range [][]string{nil, {"--budget", fmt.Sprintf("%.2f", float64(budget)/float64(usage.Dollar)), "--window", "720h"}} {
		var out []byte
		create := func() (err error) { // fails until the first process has migrated the store
			out, err = exec.CommandContext(f.t.Context(), binary, append([]string{"keys", "create", "-c", config, "--json", "--name", fmt.Sprint("key-", i), "--models", "*"}, more...)...).CombinedOutput()
			if err == nil {
				err = json.Unmarshal(out, &f.keys[i])
			}
			return err
		}
		if err := testrig.Until(f.t.Context(), testrig.Patience, "", func() bool { return create() == nil }); err != nil {
			f.t.Fatalf("%v: %s", err, out)
		}
	}
}

// load is a client that sends one request after the other, each to another gateway.
func (f *fleet) load(ctx context.Context, client int) {
	c := &http.Client{Timeout: 15 * time.Second}
	defer c.CloseIdleConnections()
	for n := client; ctx.Err() == nil; n++ {
		r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, "http://"+f.addresses[n%len(f.addresses)]+"/v1/chat/completions", strings.NewReader(`{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hello"}]}`))
		if err != nil {
			f.t.Error(err)
			return
		}
		r.Header.Set("Authorization", "Bearer "+f.keys[client%2].Key)
		r.Header.Set("Content-Type", "application/json")
		response, err := c.Do(r)
		if err != nil {
			f.failed.Add(1)
			testrig.Pause(ctx, 50*time.Millisecond)
			continue
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		switch {
		case err == nil && response.StatusCode == http.StatusOK && bytes.Contains(body, []byte(`"finish_reason"`)):
			f.mu.Lock()
			f.answered = append(f.answered, response.Header.Get("X-Request-Id"))
			f.mu.Unlock()
		case response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusPaymentRequired:
			f.refused.Add(1)
			testrig.Pause(ctx, 20*time.Millisecond)
		default:
			f.failed.Add(1)
			testrig.Pause(ctx, 50*time.Millisecond)
		}
	}
}

// compare waits until every response is stored, and fails if something is stored twice or a sum differs.
func (f *fleet) compare(engine string, s *store.Store) {
	f.t.Helper()
	for _, g := range f.gateways { // a process that was frozen at the end
		_ = g.cmd.Process.Signal(syscall.SIGCONT)
	}
	slices.Sort(f.answered)
	problem := ""
	if err := testrig.Until(f.t.Context(), 3*time.Minute, "", func() bool { problem = f.problem(engine, s); return problem == "" }); err != nil {
		f.t.Fatal(problem)
	}
	f.t.Log("ClickHouse has: ", ask(f.t, engine, "SELECT outcome, count(), uniqExact(id), sum(cost) FROM requests GROUP BY outcome ORDER BY outcome FORMAT JSONCompactEachRow"))
}

// problem returns what is missing or wrong.
func (f *fleet) problem(engine string, s *store.Store) string {
	stored := strings.Fields(ask(f.t, engine, "SELECT id FROM requests ORDER BY id FORMAT TabSeparated"))
	if n := len(slices.Compact(slices.Clone(stored))); n != len(stored) {
		return fmt.Sprintf("ClickHouse has %d requests with %d ids", len(stored), n)
	}
	missing := 0
	for _, id := range f.answered {
		if _, ok := slices.BinarySearch(stored, id); !ok {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Sprintf("%d of %d responses are not stored", missing, len(f.answered))
	}
	for i, k := range f.keys {
		want := ask(f.t, engine, fmt.Sprintf("SELECT sum(cost) FROM requests WHERE key_id = '%s' FORMAT TabSeparated", k.ID))
		spent, err := s.Spent(f.t.Context(), "key:"+k.ID, time.Now().Add(-2*time.Hour).Truncate(time.Minute))
		if err != nil || fmt.Sprint(int64(spent.Since[0])) != want {
			return fmt.Sprintf("key %d has spent %v, the sum of its requests is %s (%v)", i, spent.Since, want, err)
		}
		if i == 1 && spent.Since[0] > budget {
			return fmt.Sprintf("%s was spent of a budget of %s", spent.Since[0], budget)
		}
	}
	return ""
}
