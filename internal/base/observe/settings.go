package observe

import (
	"log/slog"
	"net/url"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// LogSettings is what is logged and how.
type LogSettings struct {
	// Lowest level that is logged.
	Level string `key:"level" default:"info" enum:"debug,info,warn,error" example:"debug"`
	// Format of a line: auto is readable text with colour on a terminal (without it if
	// NO_COLOR is set) and json elsewhere.
	Format string `key:"format" default:"auto" enum:"auto,json,text" example:"text"`
	// Maximum number of lines per second for exchanges that succeeded at the first
	// attempt and were not slow, and ten times that for those that failed because
	// of the client. All others have a line in any case. 0 is no maximum.
	Rate int `key:"rate" default:"100" minimum:"0" maximum:"1000000" example:"1000"`
	// Wait for the first content, or for the response if it is not streamed, from which
	// an exchange is slow. Slow exchanges are always logged and traced. 0 is never.
	Slow time.Duration `key:"slow" default:"30s" example:"10s"`
	// URL of an OTLP/HTTP collector that the log is sent to as well.
	Endpoint string `key:"endpoint" secret:"path" example:"http://127.0.0.1:4318"`
}

// Check checks the address of the collector.
func (l *LogSettings) Check(at *settings.At) { CheckCollector(at, l.Endpoint) }

// Lowest returns the lowest level that is logged.
func (l *LogSettings) Lowest() (level slog.Level) {
	_ = level.UnmarshalText([]byte(l.Level)) // one of four names
	return level
}

// MetricSettings is a plain listener that Prometheus and probes can reach without a key.
type MetricSettings struct {
	// Address that serves `/metrics`, `/live` and `/ready` over plain HTTP and
	// nothing else. None by default: metrics are on the admin port.
	Listen string `key:"listen" example:":9090"`
	// Which keys, teams, organisations and models have metrics of their own for
	// spend, tokens and refusals: none, those with the most use, or all (at most
	// 10,000). The others are counted together as `other`.
	ByKey string `key:"by_key" default:"top" enum:"off,top,all" example:"all"`
	// Number of keys, teams, organisations and models for `by_key: top`. Above 256 it is
	// also the number of pairs of model and provider that have other metrics of their own.
	Top int `key:"top" default:"100" minimum:"1" maximum:"10000" example:"500"`
	// URL of an OTLP/HTTP collector that metrics are sent to. Without it they are
	// only scraped.
	Endpoint string `key:"endpoint" secret:"path" example:"http://127.0.0.1:4318"`
	// Interval at which metrics are sent to the collector.
	Every time.Duration `key:"every" default:"1m" minimum:"1s" example:"15s"`
}

// Check checks the addresses.
func (m *MetricSettings) Check(at *settings.At) {
	if m.Listen != "" {
		at.Address("listen", m.Listen)
	}
	CheckCollector(at, m.Endpoint)
}

// TraceSettings is where spans are sent.
type TraceSettings struct {
	// URL of an OTLP/HTTP collector. Without it tracing is off.
	Endpoint string `key:"endpoint" secret:"path" example:"http://127.0.0.1:4318"`
	// Share of requests to trace, 0 to 1.
	Sample float64 `key:"sample" default:"1" minimum:"0" maximum:"1" example:"0.1"`
}

// Check checks the address of the collector.
func (t *TraceSettings) Check(at *settings.At) { CheckCollector(at, t.Endpoint) }

// CheckCollector checks the key endpoint of a section. An empty one is none.
func CheckCollector(at *settings.At, endpoint string) {
	if endpoint == "" {
		return
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		at.Wrong("endpoint", "%q is not a URL; write one such as \"http://127.0.0.1:4318\"", at.Written("endpoint", ""))
	case u.User != nil:
		at.Wrong("endpoint", "holds a user name or password; remove it")
	}
}
