package discover

import (
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Settings is where workers are found.
type Settings struct {
	// etcd cluster in which workers register.
	Etcd EtcdOptions `key:"etcd"`
	// JSON file with a list of workers. The gateway reads it again when it changes.
	File string `key:"file" is:"file" example:"workers.json"`
	// DNS names whose addresses are workers.
	DNS []Name `key:"dns"`
	// Networks in which workers may run. Others are rejected.
	Networks []netip.Prefix `key:"networks" example:"[10.0.0.0/8]"`
	// Models that workers may offer: names, or prefixes with "*". Others are rejected. All by
	// default.
	Models []string `key:"models" example:"[llama-*]"`
	// Credential sent to workers. None by default.
	APIKey secret.String `key:"api_key" restart:"no" example:"${WORKER_KEY}"`
	// Whether the gateway reads the queue length and the use of the KV cache from the
	// /metrics of workers that name their engine. With least-busy, workers with a queue or
	// a nearly full cache come after others.
	EngineMetrics bool `key:"engine_metrics" default:"true" restart:"no" example:"false"`

	// Local says that engines are looked for on this machine's usual ports; it is never set by a file.
	Local bool
}

// On reports whether any source is configured.
func (s *Settings) On() bool {
	return len(s.Etcd.Endpoints) > 0 || s.File != "" || len(s.DNS) > 0 || s.Local
}

// Check checks that the addresses of workers are restricted.
func (s *Settings) Check(at *settings.At) {
	if s.On() && len(s.Networks) == 0 && !at.Has("networks") {
		at.Wrong("networks", "is required: it lists where workers may run; write a list such as [10.0.0.0/8]")
	}
}

// Check checks the addresses of the cluster.
func (o *EtcdOptions) Check(at *settings.At) {
	for _, text := range o.Endpoints {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			at.Wrong("endpoints", "has %q, which is no address of etcd; write one such as \"http://127.0.0.1:2379\"", text)
			continue
		}
		if u.Scheme == "http" && !safeurl.IsLoopback(u.Hostname()) && o.Password != "" {
			at.Wrong("endpoints", "has %q, which would send the password unencrypted; write https", text)
		}
	}
	at.Together("cert", o.Cert, "key", o.Key)
}

// Check checks that the name has what a worker needs.
func (n *Name) Check(at *settings.At) {
	if n.Name == "" || n.Model == "" || n.Protocol == "" {
		at.Wrong("", "lacks name, model or protocol; write {name: vllm.svc, port: 8000, model: m, protocol: openai-chat}")
	}
	if n.Port < 0 || n.Port > 65535 {
		at.Wrong("port", "is not a port; write a number from 1 to 65535, or remove it where the name has SRV records")
	}
}

// EtcdOptions is an etcd cluster.
type EtcdOptions struct {
	// Addresses of the cluster.
	Endpoints []string `key:"endpoints" required:"yes" example:"[\"http://127.0.0.1:2379\"]"`
	// Prefix of its keys.
	Prefix string `key:"prefix" default:"/isogloss/" example:"/isogloss/"`
	// Account, if required.
	Username string `key:"username" example:"isogloss"`
	// Password of the account.
	Password secret.String `key:"password" example:"${ETCD_PASSWORD}"`
	// PEM file with the trusted certificates. The default is the system's.
	CA string `key:"ca" is:"file" example:"/etc/isogloss/etcd-ca.crt"`
	// PEM file with the gateway's client certificate.
	Cert string `key:"cert" is:"file" example:"/etc/isogloss/etcd.crt"`
	// PEM file with its private key.
	Key string `key:"key" is:"file" example:"/etc/isogloss/etcd.key"`

	Name   string        // of the source; default etcd
	Relist time.Duration // how often the whole list is compared; default 30 s
	Pulse  time.Duration // how often one key is read to check the watch; default 1 s
	Logger *slog.Logger  // default: no log
}

// Name is a DNS name of workers.
type Name struct {
	// DNS name. Its A and AAAA records are workers, or its SRV records if no port is
	// set.
	Name string `key:"name" example:"vllm.default.svc"`
	// Port of the workers.
	Port int `key:"port" example:"8000"`
	// Model that they serve, under the name that clients use.
	Model string `key:"model" example:"llama-3-70b"`
	// Protocol that they use.
	Protocol string `key:"protocol" words:"protocols" example:"openai-chat"`

	Scheme string // default http; with https the certificates must contain the workers' addresses
	Path   string // of the base URL; default /v1 for the OpenAI protocols, else none
}
