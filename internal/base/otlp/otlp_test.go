package otlp

import (
	"strings"
	"testing"
)

// TestNew makes exporters for good URLs, and does not quote a bad one.
func TestNew(t *testing.T) {
	for _, c := range []struct {
		url  string
		want string // part of the error; empty: accepted
	}{
		{"http://127.0.0.1:4318", ""},
		{"https://collector.example/base/v1/traces", ""},
		{"127.0.0.1:4318", "http://127.0.0.1:4318"},
		{"grpc://127.0.0.1:4317", "http or https"},
		{"http://user:canary@127.0.0.1", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"http://127.0.0.1?key=canary", "OTEL_EXPORTER_OTLP_HEADERS"},
	} {
		for i, signal := range []string{"trace", "metric", "log"} {
			var urls [3]string
			urls[i] = c.url
			e, err := New(urls[0], urls[1], urls[2])
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", c.url, err)
			case c.want == "" && (e.Traces != nil) != (i == 0), c.want == "" && (e.Metrics != nil) != (i == 1), c.want == "" && (e.Logs != nil) != (i == 2):
				t.Errorf("%s for %ss gives %+v", c.url, signal, e)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), signal+" endpoint")):
				t.Errorf("%s for %ss: error %v does not say %q", c.url, signal, err, c.want)
			case c.want != "" && strings.Contains(err.Error(), "canary"):
				t.Errorf("the error quotes a credential: %v", err)
			}
		}
	}
}

// TestSignalURL keeps the path of a base URL, and a path that already names the signal.
func TestSignalURL(t *testing.T) {
	for url, want := range map[string]string{
		"http://a:4318":           "http://a:4318/v1/traces",
		"http://a/base/":          "http://a/base/v1/traces",
		"https://a/b/v1/traces":   "https://a/b/v1/traces",
		"https://a/b/v1/metrics/": "https://a/b/v1/metrics/v1/traces",
	} {
		if got, err := signalURL(url, "traces"); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", url, got, err, want)
		}
	}
}
