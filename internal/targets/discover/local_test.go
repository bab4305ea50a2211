package discover

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// engine serves pages by path and counts requests for other paths.
func engine(t *testing.T, pages map[string]string) (port int, stop func()) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if to, moved := strings.CutPrefix(page, "moved "); moved {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		_, _ = w.Write([]byte(page))
	}))
	t.Cleanup(s.Close)
	return int(netip.MustParseAddrPort(s.Listener.Addr().String()).Port()), s.Close
}

// TestLocalEngines checks that each engine is identified by its own response and that a
// server that only resembles one is ignored.
func TestLocalEngines(t *testing.T) {
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer elsewhere.Close()
	for _, c := range []struct {
		name   string
		engine string
		pages  map[string]string
		models string
	}{
		{"llama.cpp", "llama.cpp", map[string]string{"/props": `{"total_slots":1}`, "/v1/models": `{"data":[{"id":"smol","owned_by":"llamacpp"}]}`}, "smol"},
		{"another program on its port", "llama.cpp", map[string]string{"/v1/models": `{"data":[{"id":"fast","owned_by":"openai"}]}`}, ""},
		{"vllm", "vllm", map[string]string{"/v1/models": `{"data":[{"id":"a","owned_by":"vllm"},{"id":"lora","owned_by":"vllm"}]}`}, "a lora"},
		{"sglang on vllm's port", "vllm", map[string]string{"/v1/models": `{"data":[{"id":"a","owned_by":"sglang"}]}`}, ""},
		{"sglang", "sglang", map[string]string{"/v1/models": `{"data":[{"id":"a","owned_by":"sglang"}]}`}, "a"},
		{"ollama", "ollama", map[string]string{"/api/version": `{"version":"0.12"}`, "/v1/models": `{"data":[{"id":"qwen3:8b","owned_by":"library"}]}`}, "qwen3:8b"},
		{"ollama's names without their end", "ollama", map[string]string{"/api/version": `{"version":"0.12"}`, "/v1/models": `{"data":[{"id":"smol:latest","owned_by":"library"}]}`}, "smol:latest smol"},
		{"ollama without models", "ollama", map[string]string{"/api/version": `{"version":"0.12"}`, "/v1/models": `{"data":null}`}, ""},
		{"lmstudio", "lmstudio", map[string]string{"/api/v0/models": `{"data":[]}`, "/v1/models": `{"data":[{"id":"x"}]}`}, "x"},
		{"no JSON", "ollama", map[string]string{"/api/version": `hello`}, ""},
		{"a redirect", "vllm", map[string]string{"/v1/models": "moved " + elsewhere.URL + "/v1/models"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			port, _ := engine(t, c.pages)
			var models []string
			for _, w := range LookLocally(context.Background(), LocalOptions{wait: patience, Engines: enginesAt(port, c.engine)}) {
				models = append(models, w.Model)
				if !strings.HasPrefix(w.URL, "http://127.0.0.1:") {
					t.Errorf("it is at %s", w.URL)
				}
			}
			if got := strings.Join(models, " "); got != c.models {
				t.Errorf("found %q, want %q", got, c.models)
			}
		})
	}
	if asked.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

// enginesAt returns an engine of the built-in list on another port.
func enginesAt(port int, name string) []Engine {
	for _, e := range Engines() {
		if e.Name == name {
			e.Port = port
			return []Engine{e}
		}
	}
	return nil
}

// TestLocalIgnoresTheGateway checks that the gateway does not find itself.
func TestLocalIgnoresTheGateway(t *testing.T) {
	port, _ := engine(t, map[string]string{"/v1/models": `{"data":[{"id":"a","owned_by":"vllm"}]}`})
	own := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port)).String()
	if got := LookLocally(context.Background(), LocalOptions{wait: patience, Engines: enginesAt(port, "vllm"), Not: own}); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

// TestLocalComesAndGoes checks that an engine that starts is found and that one that
// stops is removed at once, even the last one.
func TestLocalComesAndGoes(t *testing.T) {
	port, stop := engine(t, map[string]string{"/v1/models": `{"data":[{"id":"a","owned_by":"vllm"}]}`})
	d, err := New(Options{Sources: []Source{Local(LocalOptions{wait: patience, Engines: enginesAt(port, "vllm"), Every: 20 * time.Millisecond})}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan Snapshot, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx, func(s Snapshot) { seen <- s }) }()
	defer func() { cancel(); <-done }()
	await := func(n int) {
		t.Helper()
		for late := time.After(patience); ; {
			select {
			case s := <-seen:
				if len(s.Workers) == n && !s.Stale {
					return
				}
			case <-late:
				t.Fatalf("there are never %d workers", n)
			}
		}
	}
	await(1)
	stop()
	await(0)
}

// TestLocalSilentPorts checks that the timeouts of several ports that do not respond do
// not add up: no port responds before all have been contacted.
func TestLocalSilentPorts(t *testing.T) {
	const silent = 40
	var contacted atomic.Int64
	all := make(chan struct{})
	var engines []Engine
	for range silent {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		go func() {
			c, err := l.Accept()
			if err != nil {
				return // no scan came here
			}
			defer c.Close()
			if contacted.Add(1) == silent {
				close(all)
			}
			select {
			case <-all:
			case <-t.Context().Done():
			}
		}()
		engines = append(engines, enginesAt(l.Addr().(*net.TCPAddr).Port, "vllm")...)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-all:
			_, _ = w.Write([]byte(`{"data":[{"id":"a","owned_by":"vllm"}]}`))
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	engines = append(engines, enginesAt(s.Listener.Addr().(*net.TCPAddr).Port, "vllm")...)
	if found := LookLocally(t.Context(), LocalOptions{wait: patience, Engines: engines}); len(found) != 1 {
		t.Errorf("found %v, and %d of %d ports that do not respond were contacted", found, contacted.Load(), silent)
	}
}
