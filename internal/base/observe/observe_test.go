package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/otlp"
	"github.com/isogloss-gateway/isogloss/llm"
)

// open returns an observer and its log.
func open(t *testing.T, o Options) (*Observer, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	o.Log = &log
	observer, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := observer.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return observer, &log
}

// exporters returns exporters to a collector of all signals.
func exporters(t *testing.T, url string) otlp.Exporters {
	t.Helper()
	e, err := otlp.New(url, url, url)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// begin starts an exchange without a parent.
func begin(o *Observer) *Exchange {
	_, x := o.Begin(context.Background(), "id-1", "chat_completions", "openai-chat", nil)
	x.Operation = "chat"
	return x
}

// whole returns an exchange with all fields set.
func whole(o *Observer) *Exchange {
	x := begin(o)
	x.Requested, x.Target, x.Attempts = "openai/gpt-5", "openai/gpt-5", 2
	x.Stream, x.UpstreamStream = true, true
	x.Route("openai/*", "openai", x.Target)
	x.Responded(200, x.attempted.Add(40*time.Millisecond))
	x.Token(x.start.Add(250 * time.Millisecond))
	x.Token(x.start.Add(270 * time.Millisecond))
	x.Status = 200
	x.UpstreamID, x.UpstreamProtocol, x.ResponseModel = "req_1", "openai-chat", "gpt-5-2026"
	x.Finish, x.Fidelity = "stop", "exact"
	x.Usage = &llm.Usage{Input: 10, CacheRead: 20, CacheWrite: 30, Output: 40, Reasoning: 50}
	*x.Usage.At(llm.CacheWrite1h) = 25
	x.BytesIn, x.BytesOut, x.Events = 2000, 1000, 12
	return x
}

// lines reads a JSON log.
func lines(t *testing.T, log *bytes.Buffer) []map[string]any {
	t.Helper()
	var all []map[string]any
	for text := range strings.Lines(log.String()) {
		var l map[string]any
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		all = append(all, l)
	}
	return all
}

// one reads a JSON log of one line.
func one(t *testing.T, log *bytes.Buffer) map[string]any {
	t.Helper()
	all := lines(t, log)
	if len(all) != 1 {
		t.Fatalf("%d lines, want 1:\n%s", len(all), log)
	}
	return all[0]
}

// scrape returns the metrics as Prometheus reads them.
func scrape(t *testing.T, o *Observer) string {
	t.Helper()
	w := httptest.NewRecorder()
	o.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// has checks samples, each written as Prometheus writes it, without the prefix.
func has(t *testing.T, o *Observer, samples ...string) {
	t.Helper()
	text := "\n" + scrape(t, o)
	for _, s := range samples {
		if !strings.Contains(text, "\nisogloss_"+s+"\n") {
			t.Errorf("no sample %s in:\n%s", s, own(text))
		}
	}
}

// own keeps the gateway's samples of a scrape, without the buckets.
func own(text string) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, "isogloss_") && !strings.Contains(l, "_bucket{") {
			b.WriteString(l)
		}
	}
	return b.String()
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string // part of the error; empty: accepted
	}{
		{"zero", Options{}, ""},
		{"text", Options{Format: "text"}, ""},
		{"unknown format", Options{Format: "xml"}, `write "auto", "json" or "text"`},
		{"sample", Options{Traces: exporters(t, "http://127.0.0.1:4318").Traces, TraceSample: 10}, "from 0 to 1"},
		{"negative sample", Options{Traces: exporters(t, "http://127.0.0.1:4318").Traces, TraceSample: -1}, "from 0 to 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := New(c.o)
			if err == nil {
				err = errors.Join(o.Close(context.Background()))
			}
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && err == nil:
				t.Fatal("accepted")
			case c.want != "" && !strings.Contains(err.Error(), c.want):
				t.Errorf("error %q does not say %q", err, c.want)
			}
		})
	}
}

func TestLoggerSharesTheLog(t *testing.T) {
	o, log := open(t, Options{Level: slog.LevelWarn})
	o.Logger().Info("hidden")
	o.Logger().Warn("shown")
	if l := one(t, log); l["msg"] != "shown" {
		t.Errorf("logged %v", l)
	}
}

func TestMetricsFromTheStart(t *testing.T) {
	o, _ := open(t, Options{Version: "1.2.3"})
	has(t, o,
		`config_reloads_total{result="ok"} 0`,
		`config_reloads_total{result="error"} 0`,
		`bytes_total{direction="in"} 0`,
		`bytes_total{direction="out"} 0`,
		`stream_events_total 0`)
	text := scrape(t, o)
	for _, want := range []string{`version="1.2.3"`, "\ngo_goroutines ", "\nprocess_cpu_seconds_total "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the metrics", want)
		}
	}
}

func TestReloaded(t *testing.T) {
	o, _ := open(t, Options{})
	o.metrics.reloaded.Set(0)
	o.Reloaded(errors.New("bad file"))
	has(t, o, `config_reloads_total{result="error"} 1`, `config_last_reload_success_timestamp_seconds 0`)
	o.Reloaded(nil)
	has(t, o, `config_reloads_total{result="ok"} 1`)
	if strings.Contains(scrape(t, o), "isogloss_config_last_reload_success_timestamp_seconds 0\n") {
		t.Error("a good reload left no timestamp")
	}
}
