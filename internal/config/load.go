package config

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// Load reads the file at path. env looks up environment variables like os.LookupEnv. The
// overrides replace settings of the file, the later ones those before them.
func Load(path string, env func(string) (string, bool), overrides ...settings.Override) (*Config, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	data, err := io.ReadAll(io.LimitReader(f, settings.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, data, env, overrides...)
}

// Parse reads a configuration. The name is used in messages, and relative paths are
// relative to its folder. The error is a *settings.Problems with all errors.
func Parse(name string, data []byte, env func(string) (string, bool), overrides ...settings.Override) (*Config, error) {
	return parse(name, data, env, new(Config), overrides)
}

// parse reads a file into a configuration.
func parse(name string, data []byte, env func(string) (string, bool), c *Config, overrides []settings.Override) (*Config, error) {
	f := newFile(name, env)
	root := f.Parse(data)
	if root == nil {
		return nil, f.Err()
	}
	return read(f, root, c, overrides)
}

// newFile returns a file whose settings may have the words of the packages that their sections do not know.
func newFile(name string, env func(string) (string, bool)) *settings.File {
	f := settings.NewFile(name, env)
	f.Words = map[string][]string{"efforts": codec.Efforts()}
	for _, p := range provider.Catalog() {
		f.Words["presets"] = append(f.Words["presets"], p.Name)
	}
	for _, name := range all.Names() {
		f.Words["protocols"] = append(f.Words["protocols"], string(name))
	}
	return f
}

// read reads a tree with the overrides into a configuration.
func read(f *settings.File, root *settings.Node, c *Config, overrides []settings.Override) (*Config, error) {
	for _, o := range overrides {
		root.Override(o)
	}
	c.setDefaults(f)
	f.Decode(root, c)
	if err := f.Err(); err != nil {
		return nil, err
	}
	c.Listing = f.List(root, c)
	return c, nil
}

// setDefaults sets the values of settings that a file does not set.
func (c *Config) setDefaults(f *settings.File) {
	f.Defaults(c)
	c.Timeouts = provider.Timeouts{Connect: 5 * time.Second, FirstByte: 2 * time.Minute, Idle: 2 * time.Minute, Total: 30 * time.Minute}
}

// variables returns the settings that environment variables override, without values.
func variables() []settings.Override {
	return []settings.Override{
		{Source: "ISOGLOSS_LISTEN", Key: "listen"},
		{Source: "ISOGLOSS_ADMIN_LISTEN", Key: "admin.listen"},
		{Source: "ISOGLOSS_METRICS_LISTEN", Key: "metrics.listen"},
		{Source: "ISOGLOSS_KEYS", Key: "keys"},
		{Source: "ISOGLOSS_DATA", Key: "data"},
		{Source: "ISOGLOSS_ZONE", Key: "zone"},
		{Source: "ISOGLOSS_SHUTDOWN_DRAIN", Key: "shutdown.drain"},
		{Source: "ISOGLOSS_LOG_LEVEL", Key: "log.level"},
		{Source: "ISOGLOSS_LOG_FORMAT", Key: "log.format"},
	}
}

// Environment returns the overrides that the environment sets. An empty variable counts
// as unset.
func Environment(env func(string) (string, bool)) []settings.Override {
	var set []settings.Override
	for _, o := range variables() {
		if value, _ := env(o.Source); value != "" {
			o.Value = value
			set = append(set, o)
		}
	}
	return set
}

// FromEnvironment returns the configuration without a file: every preset whose key is
// in the environment becomes a provider of that name, and its models are served as
// NAME/*. If there is none, the error is a *NobodyError and the configuration has no
// provider.
func FromEnvironment(env func(string) (string, bool), overrides ...settings.Override) (*Config, error) {
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
		for _, o := range []settings.Override{
			{Key: "providers." + preset.Name + ".preset", Value: preset.Name},
			{Key: "providers." + preset.Name + ".api_key", Value: key},
			{Key: "models." + preset.Name + "/*.targets", Value: preset.Name + "/*"},
		} {
			o.Source = preset.EnvKey
			found = append(found, o)
		}
	}
	c, err := read(newFile("", env), &settings.Node{Kind: settings.Mapping}, &Config{alone: len(found) == len(overrides)}, found)
	if err == nil && len(c.Providers) == 0 {
		err = &NobodyError{Wanted: wanted}
	}
	return c, err
}

// NobodyError is the error of an environment without a key of any provider.
type NobodyError struct{ Wanted []string }

// Error returns the message with the variables to set.
func (e *NobodyError) Error() string {
	return "no provider: write a configuration file, or set one of " + strings.Join(e.Wanted, ", ")
}

// Default is the configuration of an empty file; it has no provider and no model.
func Default() *Config {
	c, _ := read(newFile("", os.LookupEnv), &settings.Node{Kind: settings.Mapping}, &Config{alone: true}, nil) // a test reads it
	return c
}
