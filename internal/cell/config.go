// Package cell is the router in front of several cells. A cell is a set of gateways with a store
// of their own. The router sends each request to the cell of its organisation.
package cell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/isogloss-gateway/isogloss/internal/access"
)

// Config is the file of the router.
type Config struct {
	// Listen is the address for clients.
	Listen string `yaml:"listen"`
	// Metrics is the address of /metrics, /live and /ready; empty: none.
	Metrics string `yaml:"metrics"`
	// TLS has the files of the certificate; empty: plain HTTP.
	TLS TLS `yaml:"tls"`
	// Cells are the cells by name. A name has 1 to 16 lower-case letters: it is a part of keys.
	Cells map[string]*Cell `yaml:"cells"`
	// Default is the cell of requests that no rule sends to another; empty: they are refused.
	Default string `yaml:"default"`
	// Keys maps ids of keys to cells, for keys whose name has no cell, or another one.
	Keys map[string]string `yaml:"keys"`
	// Issuers maps issuers of identity tokens to cells.
	Issuers map[string]string `yaml:"issuers"`
	// Connect limits the time for a connection to a cell. The default is 2s.
	Connect time.Duration `yaml:"connect"`
	// Drain limits the time for open requests after SIGTERM. The default is 25s.
	Drain time.Duration `yaml:"drain"`
	// Notice is how long /ready fails before the port closes. The default is 1s.
	Notice time.Duration `yaml:"notice"`
}

// TLS has the files of a certificate and its key.
type TLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Cell is one cell.
type Cell struct {
	// URL is the address of the cell's gateways.
	URL string `yaml:"url"`
	// Fallback has the cells that serve its requests while it is down, in this order. By default
	// there are none: another cell has other keys, and may be in another country.
	Fallback []string `yaml:"fallback"`

	url  *url.URL
	open prometheus.Gauge // its open requests; set by the router
}

const (
	maxFile  = 16 << 20
	maxCells = 256
)

var cellName = regexp.MustCompile(`^[a-z]{1,16}$`)

// Load reads a file. The error has all mistakes.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("configuration: %s is over %d bytes", path, maxFile)
	}
	c := &Config{Listen: "127.0.0.1:8080", Connect: 2 * time.Second, Drain: 25 * time.Second, Notice: time.Second}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(c); err != nil && !errors.Is(err, io.EOF) { // an empty file lacks cells
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, file := range []*string{&c.TLS.Cert, &c.TLS.Key} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(filepath.Dir(path), *file)
		}
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// validate checks the settings and parses the addresses.
func (c *Config) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for name, address := range map[string]string{"listen": c.Listen, "metrics": c.Metrics} {
		if _, _, err := net.SplitHostPort(address); err != nil && (name == "listen" || address != "") {
			wrong("%s: %q is not an address; write host:port, such as 127.0.0.1:8080", name, address)
		}
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		wrong("tls: write cert and key, or neither")
	}
	if len(c.Cells) == 0 || len(c.Cells) > maxCells {
		wrong("cells: there are %d; write 1 to %d", len(c.Cells), maxCells)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Cells)) {
		c.Cells[name] = c.validateCell(name, c.Cells[name], wrong)
	}
	c.known("default", c.Default, wrong)
	for id, cell := range c.Keys {
		c.known("keys."+id, cell, wrong)
	}
	for issuer, cell := range c.Issuers {
		c.known("issuers."+issuer, cell, wrong)
	}
	for name, d := range map[string]time.Duration{"connect": c.Connect, "drain": c.Drain, "notice": c.Notice} {
		if d < 0 || d > time.Hour {
			wrong("%s: is %s; write a duration of at most an hour, such as 2s", name, d)
		}
	}
	return errors.Join(errs...)
}

func (c *Config) validateCell(name string, cell *Cell, wrong func(string, ...any)) *Cell {
	if cell == nil {
		cell = &Cell{}
	}
	if !cellName.MatchString(name) || name == access.EnvLive || name == access.EnvAdmin {
		wrong("cells.%s: a name is a part of keys; write 1 to 16 lower-case letters, and not live or admin, which other keys have", name)
	}
	u, err := url.Parse(cell.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		wrong("cells.%s.url: is not a URL of a cell; write one such as \"https://eu.example.com\"", name)
	}
	cell.url = u
	for _, other := range cell.Fallback {
		if other == name {
			wrong("cells.%s.fallback: is the cell itself; remove it", name)
		}
		c.known("cells."+name+".fallback", other, wrong)
	}
	return cell
}

// known reports a cell that is not there.
func (c *Config) known(setting, cell string, wrong func(string, ...any)) {
	if _, ok := c.Cells[cell]; !ok && cell != "" {
		wrong("%s: there is no cell %q; write one of cells", setting, cell)
	}
}
