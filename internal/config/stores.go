package config

import (
	"errors"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// Store is the database of keys and ledger. An empty URL means no store.
type Store struct {
	URL     secret.String   // sqlite:PATH or postgres://…
	Peppers []secret.String // versions 1, 2, …; empty is one in the data folder
	Stale   time.Duration   // how long known keys are served without it
	// DiskFull is refuse, serve or, by default, empty: requests of keys with a budget are refused.
	DiskFull string
}

// SQLite reports whether the store is an SQLite file.
func (s Store) SQLite() bool { return strings.HasPrefix(s.URL.Reveal(), "sqlite:") }

// Redis is the Redis that shares limits. An empty URL means none.
type Redis struct {
	URL           secret.String
	CA, Cert, Key string // files
}

// Retention is how long the store keeps requests and their sums; 0 is for ever.
type Retention struct{ Requests, Hours time.Duration }

func (f *retentionFile) resolve(ps *Problems) Retention {
	switch {
	case f.has("requests") && time.Duration(f.Requests) < day:
		ps.addKey(&f.at, "requests", "is less than a day; write one such as 90d, or leave it out to keep everything")
	case f.has("hours") && f.Requests == 0:
		ps.addKey(&f.at, "hours", "needs requests too: lists find requests by their sums; write requests: 90d")
	case f.has("hours") && f.Hours < f.Requests:
		ps.addKey(&f.at, "hours", "is less than requests: lists find requests by their sums; write at least as much")
	}
	return Retention{time.Duration(f.Requests), time.Duration(f.Hours)}
}

// Tags is what the ledger records of labels that clients send.
type Tags struct {
	Keys  []string // of tags, from every source; empty: all but those of metadata
	Users string   // hashed, plain or, by default, empty: end users are not recorded
}

// Prices is the set of configured token prices. Numbers are dollars per million tokens,
// kept as text so that they are not rounded.
type Prices struct {
	Ceiling *Price // for models without a price; nil rejects them
	Models  []PriceRule
	Lists   []PriceList
}

// PriceList is a list of prices that holds for a provider, a cloud or a region; empty means any.
type PriceList struct {
	Provider, Cloud, Region, Tier string
	AsOf                          time.Time
	Models                        []PriceRule
}

// maxPriceAge is the age from which prices are suspected to be outdated.
const maxPriceAge = 183 * 24 * time.Hour

// OldPrices describes the lists of prices that are outdated.
func (p *Prices) OldPrices(now time.Time) (all []string) {
	for _, l := range p.Lists {
		if now.Sub(l.AsOf) > maxPriceAge {
			all = append(all, l.title()+" of "+l.AsOf.Format(time.DateOnly))
		}
	}
	return all
}

// title returns the properties of the list in one line.
func (l *PriceList) title() string {
	return strings.Join(slices.DeleteFunc([]string{l.Provider, l.Cloud, l.Region, l.Tier}, func(s string) bool { return s == "" }), " ")
}

// PriceRule is the price of the targets that match a pattern.
type PriceRule struct {
	Pattern string
	Price   Price
}

// Price is dollars per million tokens of each class; "" means unknown.
type Price struct{ Input, CacheRead, CacheWrite, Output, Reasoning string }

// Cache configures the response cache. A TTL of 0 turns it off.
type Cache struct {
	TTL  time.Duration
	Size int64
}

// Discover configures the sources of workers.
type Discover struct {
	Etcd     Etcd
	File     string
	DNS      []Name
	Networks []netip.Prefix // where they may be
	Models   []string       // that they may offer, by name or prefix with "*"; empty: all
	Local    bool           // engines on this machine's usual ports; never with a file
	APIKey   secret.String  // that they are called with; empty is none
	// EngineMetrics says that the load of workers is read from their engines' metrics.
	EngineMetrics bool
}

// On reports whether any source is configured.
func (d *Discover) On() bool {
	return len(d.Etcd.Endpoints) > 0 || d.File != "" || len(d.DNS) > 0 || d.Local
}

// Etcd is an etcd cluster in which workers register.
type Etcd struct {
	Endpoints     []string
	Prefix        string
	Username      string
	Password      secret.String
	CA, Cert, Key string // files
}

// Name is a DNS name of workers.
type Name struct {
	Name     string
	Port     int
	Model    string
	Protocol string
}

func (f *file) resolveStores(c *Config, ps *Problems) {
	c.Node, c.Zone, c.Cell, c.Data = f.Node, f.Zone, f.Cell, f.dataFolder()
	c.Store = f.Store.resolve(f.dir, c.Data, ps)
	c.Redis = f.Redis.resolve(f.dir, ps)
	c.Prices = f.Prices.resolve(ps)
	c.Alerts = f.Alerts.resolve(ps)
	c.Retention = f.Retention.resolve(ps)
	c.Tags = f.Tags.resolve(ps)
	f.resolveUsage(c, ps)
	c.Cache = f.Cache.resolve(ps)
	c.Discover = f.Discover.resolve(f.dir, ps)
	if !nodeForm.MatchString(f.Node) {
		ps.addKey(&f.at, "node", "is not a name of up to 64 letters, digits, \".\", \"-\" and \"_\"; write one such as gw-1")
	}
	if !nodeForm.MatchString(f.Zone) {
		ps.addKey(&f.at, "zone", "is not a name of up to 64 letters, digits, \".\", \"-\" and \"_\"; write one such as eu-west-1a")
	}
	if !cellForm.MatchString(f.Cell) || f.Cell == "live" || f.Cell == "admin" {
		ps.addKey(&f.at, "cell", "is not a name of 1 to 16 lower-case letters other than live and admin, which other keys have; write one such as eu")
	}
	if f.has("redis") && c.Store.URL == "" {
		ps.addKey(&f.at, "redis", "shares the limits of keys, which requires a store; write store, or remove redis")
	}
	if f.has("alerts") && c.Store.URL == "" {
		ps.addKey(&f.at, "alerts", "are about budgets, which require a store; write store, or remove alerts")
	}
	if f.has("tags") && c.Store.URL == "" {
		ps.addKey(&f.at, "tags", "says what the ledger records, which requires a store; write store, or remove tags")
	}
	if f.has("cache") && c.Store.URL == "" {
		ps.addKey(&f.at, "cache", "separates responses by key, which requires a store; write store, or remove cache")
	}
}

var nodeForm = regexp.MustCompile(`^[A-Za-z0-9._-]{0,64}$`)
var cellForm = regexp.MustCompile(`^[a-z]{0,16}$`)

// dataFolder returns the data folder. A path from outside the file is relative to the
// working directory.
func (f *file) dataFolder() string {
	if n := f.node.child("data"); n != nil && n.source != "" {
		return f.Data
	}
	return relativeTo(f.dir, f.Data)
}

// minPepper is the minimum length of a pepper.
const minPepper = 32

func (s *storeFile) resolve(dir, data string, ps *Problems) Store {
	if s.node == nil || s.node.kind == null {
		return Store{}
	}
	out := Store{URL: s.URL, Stale: time.Duration(s.Stale), Peppers: s.Peppers, DiskFull: string(s.DiskFull)}
	text := s.URL.Reveal()
	switch scheme, path, _ := strings.Cut(text, ":"); {
	case text == "" || text == "sqlite":
		out.URL = secret.String("sqlite:" + filepath.Join(data, "isogloss.db"))
	case scheme == "sqlite" && path != "":
		out.URL = secret.String("sqlite:" + relativeTo(dir, path))
	case scheme == "postgres", scheme == "postgresql":
		switch u, err := url.Parse(text); {
		case err != nil || u.Host == "":
			ps.addKey(&s.at, "url", "is not an address of PostgreSQL; write one such as \"postgres://user:${PASSWORD}@host:5432/isogloss\"")
		case hasKnownPassword(u):
			ps.addKey(&s.at, "url", "has a password of an example, or the name of its user as password, which everybody knows; set one from \"openssl rand -hex 32\" in PostgreSQL and write it here")
		}
	default:
		ps.addKey(&s.at, "url", "is no store; write sqlite, \"sqlite:/path/to/file.db\" or \"postgres://…\"")
	}
	if len(s.Peppers) == 0 && out.URL != "" && !out.SQLite() {
		ps.addKey(&s.at, "peppers", "is required with a shared database, because all gateways need the same; write [\"${PEPPER}\"] with one from \"openssl rand -hex 32\"")
	}
	for i, p := range s.Peppers {
		switch {
		case len(p) < minPepper:
			ps.addKey(&s.at, "peppers", "has a pepper, number %d, of less than %d characters; write one from \"openssl rand -hex 32\"", i+1, minPepper)
		case isKnown(p):
			ps.addKey(&s.at, "peppers", "has a pepper, number %d, of an example, which everybody knows; write one from \"openssl rand -hex 32\", and rotate the keys that were made with the old one", i+1)
		}
	}
	return out
}

func (r *redisFile) resolve(dir string, ps *Problems) Redis {
	if r.node == nil || r.node.kind == null {
		return Redis{}
	}
	u, err := url.Parse(r.URL.Reveal())
	if err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" {
		ps.addKey(&r.at, "url", "is not an address of Redis; write one such as \"redis://127.0.0.1:6379/0\", or rediss:// for TLS")
	}
	if (r.Cert == "") != (r.Key == "") {
		ps.addKey(&r.at, "cert", "and key belong together; write both files or neither")
	}
	if err == nil && u.Scheme == "redis" && r.CA+r.Cert+r.Key != "" {
		ps.addKey(&r.at, "url", "is without TLS, so that ca, cert and key are not used; write rediss://, or remove them")
	}
	return Redis{URL: r.URL, CA: relativeTo(dir, r.CA), Cert: relativeTo(dir, r.Cert), Key: relativeTo(dir, r.Key)}
}

// decimal is a number that is kept as text.
type decimal string

var decimalForm = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?$`)

func (d *decimal) parse(text string) error {
	if !decimalForm.MatchString(text) {
		return errors.New("is not an amount of dollars; write one such as 2.50")
	}
	*d = decimal(text)
	return nil
}

func (p *pricesFile) resolve(ps *Problems) Prices {
	var out Prices
	switch {
	case p.Unknown == "ceiling" && !p.has("ceiling"):
		ps.addKey(&p.at, "ceiling", "is required with unknown: ceiling; write one such as {input: 15, output: 75}")
	case p.Unknown == "ceiling":
		ceiling := p.Ceiling.resolve(ps)
		out.Ceiling = &ceiling
	case p.has("ceiling"):
		ps.addKey(&p.at, "ceiling", "is not used with unknown: refuse; write unknown: ceiling, or remove it")
	}
	for _, m := range p.Models {
		pattern := m.node.key
		switch {
		case !strings.Contains(pattern, "/"):
			ps.add(m.node, "names no target; write provider/model, or provider/*")
		case strings.Contains(strings.TrimSuffix(pattern, "*"), "*"):
			ps.add(m.node, "has a \"*\" that is not its last character; write a name such as \"local/*\"")
		}
		out.Models = append(out.Models, PriceRule{Pattern: pattern, Price: m.resolve(ps)})
	}
	for i := range p.Lists {
		out.Lists = append(out.Lists, p.Lists[i].resolve(ps))
	}
	return out
}

func (l *priceListFile) resolve(ps *Problems) PriceList {
	out := PriceList{Provider: l.Provider, Cloud: string(l.Cloud), Region: l.Region, Tier: string(l.Tier)}
	if out.title() == "" {
		ps.add(l.node, "holds for no place; write provider, cloud, region or tier, or write the prices under prices.models")
	}
	var err error
	if out.AsOf, err = time.Parse(time.DateOnly, l.AsOf); err != nil {
		ps.addKey(&l.at, "as_of", "is not a day; write the day on which the prices were looked up, such as 2026-11-01")
	}
	if len(l.Models) == 0 {
		ps.addKey(&l.at, "models", "is required; write prices by model, such as \"anthropic.claude-*\": {input: 3, output: 15}")
	}
	for _, m := range l.Models {
		if strings.Contains(strings.TrimSuffix(m.node.key, "*"), "*") {
			ps.add(m.node, "has a \"*\" that is not its last character; write a name such as \"anthropic.claude-*\"")
		}
		out.Models = append(out.Models, PriceRule{Pattern: m.node.key, Price: m.resolve(ps)})
	}
	return out
}

func (p *priceFile) resolve(ps *Problems) Price {
	for _, f := range []struct {
		key   string
		value decimal
	}{{"input", p.Input}, {"output", p.Output}} {
		if f.value == "" {
			ps.addKey(&p.at, f.key, "is required; write dollars for a million tokens, 0 where it costs nothing")
		}
	}
	return Price{Input: string(p.Input), CacheRead: string(p.CacheRead), CacheWrite: string(p.CacheWrite), Output: string(p.Output), Reasoning: string(p.Reasoning)}
}

func (c *cacheFile) resolve(ps *Problems) Cache {
	if c.node == nil || c.node.kind == null {
		return Cache{}
	}
	if c.TTL <= 0 {
		ps.addKey(&c.at, "ttl", "is required: it is how long a response is kept; write a duration such as 10m")
	}
	if c.Size < minSize {
		ps.addKey(&c.at, "size", "is less than 1KiB; write a size such as 256MiB")
	}
	return Cache{TTL: time.Duration(c.TTL), Size: int64(c.Size)}
}

func (d *discoverFile) resolve(dir string, ps *Problems) Discover {
	out := Discover{Etcd: d.Etcd.resolve(dir, ps), File: relativeTo(dir, d.File), Models: d.Models, APIKey: d.APIKey, EngineMetrics: d.EngineMetrics}
	for i := range d.DNS {
		out.DNS = append(out.DNS, d.DNS[i].resolve(ps))
	}
	out.Networks = d.networks("networks", d.Networks, ps)
	if out.On() && len(d.Networks) == 0 {
		ps.addKey(&d.at, "networks", "is required: it lists where workers may run; write a list such as [10.0.0.0/8]")
	}
	return out
}

func (e *etcdFile) resolve(dir string, ps *Problems) Etcd {
	for _, text := range e.Endpoints {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			ps.addKey(&e.at, "endpoints", "has %q, which is no address of etcd; write one such as \"http://127.0.0.1:2379\"", text)
			continue
		}
		if u.Scheme == "http" && !isLoopback(u.Hostname()) && e.Password != "" {
			ps.addKey(&e.at, "endpoints", "has %q, which would send the password unencrypted; write https", text)
		}
	}
	if e.node != nil && len(e.Endpoints) == 0 {
		ps.addKey(&e.at, "endpoints", "is required; write a list such as [\"http://127.0.0.1:2379\"]")
	}
	if (e.Cert == "") != (e.Key == "") {
		ps.addKey(&e.at, "cert", "and key belong together; write both files or neither")
	}
	return Etcd{Endpoints: e.Endpoints, Prefix: e.Prefix, Username: e.Username, Password: e.Password, CA: relativeTo(dir, e.CA), Cert: relativeTo(dir, e.Cert), Key: relativeTo(dir, e.Key)}
}

func (n *nameFile) resolve(ps *Problems) Name {
	if n.Name == "" || n.Model == "" || n.Protocol == "" {
		ps.add(n.node, "lacks name, model or protocol; write {name: vllm.svc, port: 8000, model: m, protocol: openai-chat}")
	}
	if n.Port < 0 || n.Port > 65535 {
		ps.addKey(&n.at, "port", "is not a port; write a number from 1 to 65535, or remove it where the name has SRV records")
	}
	return Name{Name: n.Name, Port: n.Port, Model: n.Model, Protocol: string(n.Protocol)}
}

type unknownName string

func (unknownName) options() []string { return []string{"refuse", "ceiling"} }

// cloudName is a cloud that a list of prices is for.
type cloudName string

func (cloudName) options() []string { return []string{"aws", "google", "azure"} }

// tierName is a service tier that a list of prices is for.
type tierName string

func (tierName) options() []string {
	return []string{"standard", "batch", "flex", "priority", "provisioned"}
}

type diskFullName string

func (diskFullName) options() []string { return []string{"refuse", "serve"} }

type usersName string

func (usersName) options() []string { return []string{"none", "hashed", "plain"} }

// maxTagKeys is the number of tag keys that have sums in the ledger.
const maxTagKeys = 32

var tagKeyForm = regexp.MustCompile(`^[a-z0-9_.-]{1,32}$`)

func (t *tagsFile) resolve(ps *Problems) Tags {
	if len(t.Keys) > maxTagKeys {
		ps.addKey(&t.at, "keys", "has %d keys; the ledger has sums for %d, remove some", len(t.Keys), maxTagKeys)
	}
	for _, key := range t.Keys {
		if !tagKeyForm.MatchString(key) {
			ps.addKey(&t.at, "keys", "%q is not a key of up to 32 lower-case letters, digits, \".\", \"-\" and \"_\"; write one such as team", key)
		}
	}
	out := Tags{Keys: t.Keys, Users: string(t.Users)}
	if out.Users == "none" {
		out.Users = ""
	}
	return out
}

// Discovered is the provider name that stands for discovered workers.
const Discovered = "discovered"
