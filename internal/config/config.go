package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/targets/params"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// Config is a checked configuration with all defaults set. It is immutable.
type Config struct {
	Listen    string // host:port of the gateway
	TLS       TLS
	ACME      ACME
	BasePath  string         // of client paths, without a slash at its end; empty is none
	Origins   []string       // that browsers may call from
	Proxies   []netip.Prefix // whose X-Forwarded-For is believed
	Admin     Admin
	Metrics   Metrics
	Shutdown  Shutdown
	Keys      []Key // client keys in the file
	Identity  []Issuer
	SignIn    *SignIn // nil: none
	Providers []*provider.Provider
	Models    []Model
	Timeouts  provider.Timeouts // the file's own; a Target's are already resolved
	Retries   Retries
	Overload  Overload
	Limits    Limits
	KeepAlive time.Duration // between comment lines on an idle stream; 0 is off
	Fidelity  string        // "strict", "default" or "loose"
	Gates     []provider.Gate
	Node      string // empty is the host's name
	Zone      string // empty: zones do not matter
	Cell      string // in the text of new keys; empty: none
	Data      string // the folder for what outlives the process
	Store     Store
	Redis     Redis
	Prices    Prices
	Alerts    Alerts
	Retention Retention
	Tags      Tags
	Usage     Usage
	Cache     Cache
	Discover  Discover
	Log       Log
	Traces    Traces
	Telemetry Telemetry

	Settings    []Setting // where each setting comes from
	SettingsCut bool      // there are more of them
	values      []value
	starts      map[string]secret.String // the whole texts of settings that are applied only at start-up
}

// Format prints String for every verb. The value receiver leaves no way past it.
func (c Config) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// LogValue gives slog a summary; the whole may be long.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("listen", c.Listen), slog.String("admin", c.Admin.Listen), slog.Int("keys", len(c.Keys)),
		slog.Int("providers", len(c.Providers)), slog.Int("models", len(c.Models)))
}

// Admin is the admin port: metrics and the admin API.
type Admin struct {
	Listen   string
	Explicit bool // set in the file, so a port in use is an error
	Open     bool // other machines can reach it
	TLS      TLS
}

// TLS is a certificate of a port. Its zero value means plain HTTP.
type TLS struct {
	Cert, Key  string // files
	ClientCA   string // file; empty: clients need no certificate
	MinVersion uint16 // of crypto/tls
}

// ACME is the authority of the client port's certificate. Without domains there is none.
type ACME struct {
	Domains   []string
	Email     string
	Directory string // URL; empty is Let's Encrypt
	CA        string // file; empty is the system's
	Storage   string // folder; empty is in the data folder
}

// Key is a client key of the file.
type Key struct {
	Secret      secret.String
	Criticality string // "critical", "normal" or "sheddable"
	Concurrency int    // 0 is Overload's
}

// Shutdown is how long a stopping process serves.
type Shutdown struct {
	Notice time.Duration // from failing readiness to the closed port
	Drain  time.Duration // for requests that are open then
}

// Retries limits the attempts of a request.
type Retries struct {
	Attempts int
}

// Overload limits concurrent requests. See overloadFile for the meaning of 0.
type Overload struct {
	Requests, PerKey, PerTarget int
	Queue                       int
	Wait                        time.Duration
	Adaptive                    bool
	Memory                      int64
}

// Hedge configures hedging. A Percentile of 0 turns it off.
type Hedge struct {
	Percentile, Share float64
}

// Model is a model name for clients and its targets. A Name that ends in "*" is a prefix
// pattern; a "*" in a target's model then stands for the rest.
type Model struct {
	Name     string
	OwnedBy  string // owned_by in lists of models
	Targets  []Target
	Balance  string
	Hedge    Hedge
	Continue bool
	Params   *params.Set // nil: none
}

// Target is one model of one provider, or all discovered workers of a model.
type Target struct {
	Provider *provider.Provider // nil for discovered workers
	Model    string
	Weight   int               // 1 or more
	Timeouts provider.Timeouts // the model's, else the provider's, else the file's
}

// String is the target as operators write it.
func (t Target) String() string {
	if t.Provider == nil {
		return Discovered + "/" + t.Model
	}
	return t.Provider.Name + "/" + t.Model
}

// Limits holds memory limits in bytes.
type Limits struct {
	Body   int64 // a request's body
	Event  int64 // one server-sent event
	Answer int64 // a non-streaming response

	// Conversations limits the conversation store; 0 turns it off.
	Conversations int64
}

// Log configures the log.
type Log struct {
	Level    slog.Level
	Format   string // "auto", "json" or "text"
	Rate     int    // lines of ordinary exchanges per second; 0 is no maximum
	Slow     time.Duration
	Endpoint string // of a collector; empty is none
}

// Metrics configures the metrics.
type Metrics struct {
	Listen   string // host:port of the metrics listener; empty is none
	ByKey    string // "off", "top" or "all"
	Top      int
	Endpoint string // of a collector; empty is none
	Every    time.Duration
}

// Traces is where spans are sent. An empty Endpoint is off.
type Traces struct {
	Endpoint string  // URL of an OTLP/HTTP collector
	Sample   float64 // share of requests, 0 to 1
}

// Telemetry is where the telemetry of clients is sent. An empty Endpoint is nowhere.
type Telemetry struct{ Endpoint string }

// maxFile is the maximum size of the file, far above a table of 100,000 models.
const maxFile = 64 << 20

// Load reads the file at path. env looks up environment variables like os.LookupEnv. The
// overrides replace settings of the file, the later ones those before them.
func Load(path string, env func(string) (string, bool), overrides ...Override) (*Config, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, data, env, overrides...)
}

// Parse reads a configuration. The name is used in messages, and relative paths are
// relative to its folder. The error is a *Problems with all errors.
func Parse(name string, data []byte, env func(string) (string, bool), overrides ...Override) (*Config, error) {
	ps := &Problems{file: name}
	dir := filepath.Dir(name)
	root := parseYAML(data, variableReader{env: env, dir: dir}, ps)
	if root == nil {
		return nil, ps.err()
	}
	raw := decodeFile(root, dir, overrides, ps)
	raw.env = env
	c := raw.resolve(ps)
	if err := ps.err(); err != nil {
		return nil, err
	}
	c.list(raw, root)
	return c, nil
}

// decodeFile decodes the tree with the overrides into the structs of file.go.
func decodeFile(root *node, dir string, overrides []Override, ps *Problems) *file {
	raw := defaultFile()
	raw.dir = dir
	for _, o := range overrides {
		root.override(o)
	}
	decode(root, &raw, ps)
	return &raw
}

// FromEnvironment returns the configuration without a file: every preset whose key is
// in the environment becomes a provider of that name, and its models are served as
// NAME/*. If there is none, the error is a *NobodyError and the configuration has no
// provider.
func FromEnvironment(env func(string) (string, bool), overrides ...Override) (*Config, error) {
	var wanted []string
	found := slices.Clone(overrides)
	for _, preset := range provider.Catalog() {
		if preset.EnvKey == "" || preset.BaseURL == "" {
			continue
		}
		wanted = append(wanted, preset.EnvKey)
		key, _ := env(preset.EnvKey)
		if key = strings.TrimSpace(key); key == "" {
			continue
		}
		for _, o := range []Override{
			{Key: "providers." + preset.Name + ".preset", Value: preset.Name},
			{Key: "providers." + preset.Name + ".api_key", Value: key},
			{Key: "models." + preset.Name + "/*.targets", Value: preset.Name + "/*"},
		} {
			o.Source = preset.EnvKey
			found = append(found, o)
		}
	}
	ps := &Problems{}
	root := &node{kind: mapping}
	raw := decodeFile(root, "", found, ps)
	raw.env = env
	resolve := raw.resolve
	if len(found) == len(overrides) {
		resolve = raw.resolveOwn
	}
	c := resolve(ps)
	if err := ps.err(); err != nil {
		return nil, err
	}
	c.list(raw, root)
	if len(c.Providers) == 0 {
		return c, &NobodyError{Wanted: wanted}
	}
	return c, nil
}

// NobodyError is the error of an environment without a key of any provider.
type NobodyError struct{ Wanted []string }

// Error returns the message with the variables to set.
func (e *NobodyError) Error() string {
	return "no provider: write a configuration file, or set one of " + strings.Join(e.Wanted, ", ")
}

// Default is the configuration of an empty file; it has no provider and no model.
func Default() *Config {
	raw := defaultFile()
	return raw.resolveOwn(&Problems{})
}

// StartsOtherwise returns the keys of the settings in which two configurations differ and which are applied only at
// start-up.
func (c *Config) StartsOtherwise(from *Config) (keys []string) {
	for key, text := range c.starts {
		if text != from.starts[key] {
			keys = append(keys, key)
		}
	}
	for key := range from.starts {
		if _, both := c.starts[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
