package agentapi

import (
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Telemetry is where the telemetry of clients is sent.
type Telemetry struct {
	// URL of an OTLP/HTTP collector that metrics, logs and traces of clients are
	// relayed to. Without it they are discarded.
	Endpoint string `key:"endpoint" secret:"path" example:"http://127.0.0.1:4318"`
}

// Check checks the address of the collector.
func (t *Telemetry) Check(at *settings.At) { observe.CheckCollector(at, t.Endpoint) }
