package config

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/edge/certs"
)

// Admin is the listener for metrics and the admin API.
type Admin struct {
	// Address of the metrics and the admin API. An address other than loopback
	// requires tls and a store, and then every request to it needs an operator key.
	Listen string `key:"listen" default:"127.0.0.1:8081" example:"127.0.0.1:9090"`
	// Certificate of the admin port.
	TLS certs.Files `key:"tls"`

	Explicit bool // the address is set, so that a port in use is an error
	Open     bool // other machines can reach it
}

// Check checks that operators need keys if other machines can reach the port.
func (a *Admin) Check(at *settings.At) {
	host, ok := at.Address("listen", a.Listen)
	a.Explicit, a.Open = at.Has("listen"), ok && !safeurl.IsLoopback(host)
	if a.Open && (!at.Configured("store") || a.TLS.Cert == "") {
		at.Wrong("listen", "%q is reachable from other machines; write admin.tls and a store with operators' keys, or 127.0.0.1 and a port", at.Written("listen", a.Listen))
	}
}

// Shutdown is how the gateway stops on SIGTERM and SIGINT. The sum plus two seconds
// must be less than the time that the supervisor leaves before it kills the process.
type Shutdown struct {
	// Time between failing readiness and closing the port. New requests are served
	// during it, so that load balancers can notice.
	Notice time.Duration `key:"notice" default:"1s" example:"5s"`
	// Time for open requests to finish. Those that are open afterwards end with an
	// error.
	Drain time.Duration `key:"drain" default:"25s" example:"10m"`
}
