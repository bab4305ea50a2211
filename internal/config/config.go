package config

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/secret"
)

// Config is a checked configuration with every default filled in. It is not
// changed after it was built.
type Config struct {
	Listen    string // host:port of the gateway
	Admin     Admin
	Keys      []Key // static client keys; none means that no key is asked for
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
	Data      string // the folder for what outlives the process
	Store     Store
	Redis     secret.String // the URL; empty is none
	Prices    Prices
	Cache     Cache
	Discover  Discover
	Log       Log
	Traces    Traces
}

// Admin is the second listener: metrics and administration.
type Admin struct {
	Listen    string
	Explicit  bool   // the operator wrote it, so a port that is taken is an error
	Open      bool   // other machines can reach it
	Cert, Key string // files; empty is plain HTTP
}

// Key is a client's key.
type Key struct {
	Secret      secret.String
	Criticality string // "critical", "normal" or "sheddable"
	Concurrency int    // 0 is Overload's
}

// Retries bound what is done for a request that a provider has failed.
type Retries struct {
	Attempts int
}

// Overload bounds what is served at once; 0 is what its key's comment says.
type Overload struct {
	Requests, PerKey, PerTarget int
	Queue                       int
	Wait                        time.Duration
	Adaptive                    bool
	Memory                      int64
}

// Hedge is when a second target is asked; a Percentile of 0 is never.
type Hedge struct {
	Percentile, Share float64
}

// Model is a name that clients use and who serves it. A Name that ends in "*" is
// a prefix pattern; a "*" in a target's model then stands for the rest.
type Model struct {
	Name     string
	OwnedBy  string // owned_by in lists of models
	Targets  []Target
	Balance  string
	Hedge    Hedge
	Continue bool
}

// Target is one model of one provider, or all workers of a model that are found.
type Target struct {
	Provider *provider.Provider // nil for workers that are found
	Model    string
	Weight   int               // 1 or more
	Timeouts provider.Timeouts // the model's, else the provider's, else the file's
}

// Limits bound what is held in memory, in bytes.
type Limits struct {
	Body   int64 // a request's body
	Event  int64 // one server-sent event
	Answer int64 // an answer that has to be collected

	// Conversations are what is kept of them for clients that name what was said
	// before; 0 keeps nothing.
	Conversations int64
}

// Log is what is logged and how.
type Log struct {
	Level  slog.Level
	Format string // "json" or "text"
}

// Traces is where spans are sent. An empty Endpoint is off.
type Traces struct {
	Endpoint string  // URL of an OTLP/HTTP collector
	Sample   float64 // share of requests, 0 to 1
}

// maxFile bounds the file; it is far above a table of 100,000 models.
const maxFile = 64 << 20

// Load reads the file at path. env looks an environment variable up, as
// os.LookupEnv does.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, data, env)
}

// Parse reads a configuration. The name is only for messages. The error is a
// *Problems with every mistake that was found.
func Parse(name string, data []byte, env func(string) (string, bool)) (*Config, error) {
	ps := &Problems{file: name}
	raw := defaultFile()
	root := parseYAML(data, env, ps)
	if root == nil {
		return nil, ps.err()
	}
	decode(root, &raw, ps)
	c := raw.resolve(ps)
	if err := ps.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// FromEnvironment is the configuration of a gateway that was given no file:
// every preset whose key is in the environment becomes a provider of that name,
// and its models are served as NAME/*. Where there is none, the error is a
// *NobodyError, and the configuration has nobody.
func FromEnvironment(env func(string) (string, bool)) (*Config, error) {
	c := Default()
	var wanted []string
	for _, preset := range provider.Catalog() {
		if preset.EnvKey == "" || preset.BaseURL == "" {
			continue
		}
		wanted = append(wanted, preset.EnvKey)
		key, _ := env(preset.EnvKey)
		if key = strings.TrimSpace(key); key == "" {
			continue
		}
		p, err := preset.Provider(preset.Name)
		if err != nil {
			return nil, fmt.Errorf("preset %s: base URL %w", preset.Name, err)
		}
		p.Key = secret.String(key)
		p.Timeouts = c.Timeouts
		c.Providers = append(c.Providers, p)
		c.Models = append(c.Models, Model{
			Name:    p.Name + "/*",
			OwnedBy: p.Name,
			Targets: []Target{{Provider: p, Model: "*", Weight: 1, Timeouts: p.Timeouts}},
		})
	}
	if len(c.Providers) == 0 {
		return c, &NobodyError{Wanted: wanted}
	}
	return c, nil
}

// NobodyError is that the environment names nobody who serves models.
type NobodyError struct{ Wanted []string }

// Error says what to write.
func (e *NobodyError) Error() string {
	return "no provider: write a configuration file, or set one of " + strings.Join(e.Wanted, ", ")
}

// Default is the configuration of an empty file; it has no provider and no model.
func Default() *Config {
	raw := defaultFile()
	return raw.resolveOwn(&Problems{})
}
