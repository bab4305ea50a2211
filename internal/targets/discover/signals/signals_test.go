package signals

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMetricsOfEngines checks the metrics of each engine. That of llama.cpp was recorded
// with one slot and four requests; the others have the form of their documentation.
func TestMetricsOfEngines(t *testing.T) {
	for file, want := range map[string]load{
		"vllm":     {waiting: 3, running: 8, cache: 0.4205607476635514},
		"vllm_old": {running: 2, cache: 0.97},
		"sglang":   {waiting: 2826, running: 162, cache: 0.28},
		"llamacpp": {waiting: 3, running: 1},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parse(text, names()); err != nil || got != want || !got.saturated() {
			t.Errorf("%s: %+v, %v, want %+v", file, got, err, want)
		}
	}
}

// TestForgedMetrics checks that lines that are malformed and values that are impossible
// are ignored, and that valid ones beside them count.
func TestForgedMetrics(t *testing.T) {
	for _, line := range []string{
		"", "vllm:num_requests_waiting", "vllm:num_requests_waiting ", "vllm:num_requests_waiting{", "vllm:num_requests_waiting{a=\"b\"}",
		"vllm:num_requests_waiting NaN", "vllm:num_requests_waiting -1", "vllm:num_requests_waiting +Inf", "vllm:num_requests_waiting -Inf",
		"vllm:num_requests_waiting 1e300", "vllm:num_requests_waiting 1e999", "vllm:num_requests_waiting 1000001", "vllm:num_requests_waiting many",
		"vllm:num_requests_waiting 1 2 3", "vllm:kv_cache_usage_perc 1.5", "vllm:kv_cache_usage_perc NaN", "vllm:kv_cache_usage_perc -0.1",
		"vllm:num_requests_waiting_total 3", "# vllm:num_requests_waiting 3", " vllm:num_requests_waiting 3", "other 3", "\x00\xff{ 3",
	} {
		if got, err := parse([]byte(line+"\n"), names()); err == nil {
			t.Errorf("%q is read as %+v", line, got)
		}
		got, err := parse([]byte(line+"\nllamacpp:requests_processing 2\r\n"+line), names())
		if err != nil || got != (load{running: 2}) || got.saturated() {
			t.Errorf("beside %q: %+v, %v", line, got, err)
		}
	}
	for line, want := range map[string]load{
		"vllm:num_requests_waiting{model_name=\"a} 7 {b\\\"\"} 2 1395066363000": {waiting: 2},
		"vllm:kv_cache_usage_perc\t1":                                           {cache: 1},
	} {
		if got, err := parse([]byte(line), names()); err != nil || got != want {
			t.Errorf("%q is read as %+v, %v", line, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("vllm:num_requests_waiting{a=\"}\"} 1 2\nsglang:token_usage 0.5"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parse(text, names())
		if err != nil && l != (load{}) || l.waiting < 0 || l.waiting > maxRequests || l.running < 0 || l.running > maxRequests || l.cache < 0 || l.cache > 1 {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	testrig.Eventually(t, what, done)
}

// serve runs an engine and returns the URL of its metrics.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/metrics"
}

func newReader(t *testing.T, every time.Duration) *Reader {
	t.Helper()
	r := &Reader{every: every}
	t.Cleanup(r.Close)
	return r
}

// TestSaturated checks that an engine is saturated while it has a queue, that a value
// that is not renewed expires, and that an engine that is no longer used is not read.
func TestSaturated(t *testing.T) {
	var queue, reads atomic.Int64
	var broken atomic.Bool
	at := serve(t, func(w http.ResponseWriter, req *http.Request) {
		reads.Add(1)
		if broken.Load() || req.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, "vllm:num_requests_waiting{engine=\"0\"} %d\n", queue.Load())
	})
	r := newReader(t, 100*time.Millisecond)
	header := http.Header{"Authorization": {"Bearer k"}}
	e := r.Engine(at, header)
	eventually(t, "a read", func() bool { return reads.Load() > 0 })
	if e.Saturated() {
		t.Error("an engine without a queue is saturated")
	}
	queue.Store(2)
	eventually(t, "a queue", e.Saturated)
	queue.Store(0)
	eventually(t, "the end of the queue", func() bool { return !e.Saturated() })
	queue.Store(2)
	eventually(t, "a queue", e.Saturated)
	broken.Store(true)
	eventually(t, "the end of an old value", func() bool { return !e.Saturated() })
	if r.Engine(at, header) != e {
		t.Error("the same engine is another one")
	}
	if r.Engine(at, http.Header{}) == e {
		t.Error("a new credential is not used")
	}
	r.Keep(map[string]bool{})
	if n := len(r.engines); n != 0 {
		t.Errorf("%d engines are kept", n)
	}
	if (*Engine)(nil).Saturated() {
		t.Error("no engine is saturated")
	}
}

// TestHostileEngines checks that an engine that redirects, sends without end or too
// slowly is not saturated, that the target of a redirect is not requested, and that
// others are read meanwhile.
func TestHostileEngines(t *testing.T) {
	const busy = "vllm:num_requests_waiting 5\n"
	var hits atomic.Int64
	trap := serve(t, func(w http.ResponseWriter, _ *http.Request) { hits.Add(1); fmt.Fprint(w, busy) })
	hostile := map[string]string{
		"redirect": serve(t, func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, trap, http.StatusFound) }),
		"endless": serve(t, func(w http.ResponseWriter, req *http.Request) {
			for req.Context().Err() == nil {
				fmt.Fprint(w, strings.Repeat(busy, 1000))
			}
		}),
		"silent": serve(t, func(w http.ResponseWriter, req *http.Request) {
			fmt.Fprint(w, busy)
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		}),
		"error": serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, busy)
		}),
	}
	c := client{names: names(), every: time.Second, transport: &http.Transport{}}
	defer c.transport.CloseIdleConnections()
	engine := func(at string) *Engine {
		req, err := http.NewRequest(http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		return &Engine{req: req}
	}
	var list []*Engine
	for name, at := range hostile {
		e := engine(at)
		list = append(list, e)
		if l, err := c.read(t.Context(), e); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
	good := engine(serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, busy) }))
	c.round(t.Context(), append(list, good))
	for _, e := range list {
		if e.Saturated() {
			t.Errorf("%s is saturated", e.req.URL)
		}
	}
	if !good.Saturated() || hits.Load() > 0 {
		t.Errorf("the good engine: %t; the target of the redirect was requested %d times", good.Saturated(), hits.Load())
	}
}

// TestWhatIsRead checks that hosts that are not addresses are not read, and that the
// number of engines has a bound.
func TestWhatIsRead(t *testing.T) {
	r := newReader(t, time.Hour)
	for _, at := range []string{"http://localhost:1/metrics", "http://metadata.internal/metrics", "http:///metrics", "http://2130706433/metrics", "://"} {
		if r.Engine(at, nil) != nil {
			t.Errorf("%s is read", at)
		}
	}
	for i := range maxEngines + 10 {
		r.Engine(fmt.Sprintf("http://127.0.0.1:%d/metrics", i+1), nil)
	}
	if n := len(r.engines); n != maxEngines {
		t.Errorf("%d engines are read", n)
	}
	r.Close()
	if r.Engine("http://"+net.JoinHostPort("::1", "1")+"/metrics", nil) != nil {
		t.Error("an engine is read after Close")
	}
}
