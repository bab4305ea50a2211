package observe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collectlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	otlpmetrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// signals is an OTLP/HTTP collector of metrics and logs.
type signals struct {
	*httptest.Server
	mu      sync.Mutex
	metrics map[string]*otlpmetrics.Metric
	logs    []*logs.LogRecord
	schemas []string
	refuse  bool
}

func newSignals(t *testing.T) *signals {
	t.Helper()
	s := &signals{metrics: map[string]*otlpmetrics.Metric{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refuse {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if err := s.take(req); err != nil {
			t.Errorf("%s: %v", req.URL.Path, err)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *signals) take(req *http.Request) error {
	raw, err := readExport(req)
	if err != nil {
		return err
	}
	switch req.URL.Path {
	case "/v1/metrics":
		var got collectmetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(raw, &got); err != nil {
			return err
		}
		for _, rm := range got.ResourceMetrics {
			s.schemas = append(s.schemas, rm.SchemaUrl)
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					s.metrics[m.Name] = m
				}
			}
		}
	case "/v1/logs":
		var got collectlogs.ExportLogsServiceRequest
		if err := proto.Unmarshal(raw, &got); err != nil {
			return err
		}
		for _, rl := range got.ResourceLogs {
			s.schemas = append(s.schemas, rl.SchemaUrl)
			for _, sl := range rl.ScopeLogs {
				s.schemas = append(s.schemas, sl.SchemaUrl)
				s.logs = append(s.logs, sl.LogRecords...)
			}
		}
	}
	return nil
}

// TestSignals checks what a collector of metrics and logs receives: the samples of the
// registry, and the exchange's line with its attributes and its trace.
func TestSignals(t *testing.T) {
	s, spans := newSignals(t), newReceiver(t)
	o, log := open(t, Options{Metrics: exporters(t, s.URL).Metrics, Logs: exporters(t, s.URL).Logs, Traces: exporters(t, spans.URL).Traces, TraceSample: 1, Version: "1.2.3"})
	whole(o).End()
	o.Logger().Debug("too low")
	flush(t, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.metrics["isogloss_requests_total"]
	if requests == nil || len(requests.GetSum().GetDataPoints()) != 1 || requests.GetSum().DataPoints[0].GetAsDouble() != 1 || !requests.GetSum().IsMonotonic {
		t.Fatalf("the collector has %v", requests)
	}
	if got := attributes(requests.GetSum().DataPoints[0].Attributes); got["model"] != "openai/*" || got["outcome"] != "ok" {
		t.Errorf("the sample has %v", got)
	}
	if h := s.metrics["isogloss_time_to_first_token_seconds"]; h == nil || h.GetHistogram().GetDataPoints()[0].Count != 1 {
		t.Errorf("the histogram is %v", h)
	}
	if len(s.logs) != 1 {
		t.Fatalf("%d log records, want that of the exchange\n%s", len(s.logs), log)
	}
	record := s.logs[0]
	got := attributes(record.Attributes)
	if record.Body.GetStringValue() != "exchange" || record.SeverityText != "INFO" || got["target"] != "openai/gpt-5" || got["duration_ms"] == nil || got["input_tokens"] != int64(10) {
		t.Errorf("the record is %v with %v", record, got)
	}
	if len(record.TraceId) != 16 || len(record.SpanId) != 8 {
		t.Errorf("the record is not linked to its trace: %x %x", record.TraceId, record.SpanId)
	}
	for _, schema := range s.schemas {
		if schema != semconv.SchemaURL {
			t.Errorf("the schema is %q, want %q", schema, semconv.SchemaURL)
		}
	}
	if !strings.Contains(log.String(), `"msg":"exchange"`) {
		t.Error("the log is not written any more")
	}
}

// TestSignalsRefused checks that a collector that refuses is logged once, locally, and
// costs no request.
func TestSignalsRefused(t *testing.T) {
	s := newSignals(t)
	s.refuse = true
	o, log := open(t, Options{Metrics: exporters(t, s.URL).Metrics, Logs: exporters(t, s.URL).Logs})
	for range 3 {
		whole(o).End()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = o.Close(ctx)
	for _, want := range []string{"metrics not exported", "logs not exported"} {
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%d lines say %q\n%s", n, want, log)
		}
	}
}
