package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/base/resp"
)

// Options configure a Client.
type Options struct {
	// URL is redis://user:password@host:port/0, or rediss:// for TLS. Further addresses of a cluster, or
	// of Sentinels, follow as ?addr=host:port. With master_set=NAME the addresses are Sentinels.
	URL           string
	CA, Cert, Key string        // PEM files for TLS; the certificate is read for every connection
	Scripts       []string      // texts of the scripts; the variable epoch is the id of the server
	Timeout       time.Duration // of a call that a request waits for; 0: 50 ms
	Logger        *slog.Logger  // of panics; default: no log
}

// Client is a Redis: one server, or those of a cluster. It is safe for concurrent use.
type Client struct {
	o         Options
	option    rueidis.ClientOption
	masterSet string   // that Sentinels know; empty: no Sentinels
	seeds     []string // configured addresses
	cluster   atomic.Bool
	topology  atomic.Pointer[Topology]
	changed   chan struct{} // receives a value when the topology has changed
	stale     chan struct{} // receives a value when the topology may have changed
	lost      atomic.Pointer[func(*Server, error)]
	stop      context.CancelFunc
	ctx       context.Context // ends with Close
	running   sync.WaitGroup

	mu       sync.Mutex // serialises refresh
	sentinel rueidis.Client
	retired  []*Server // replaced by others; closed at the next change
}

const (
	defaultTimeout = 50 * time.Millisecond

	ringScale = 13   // a connection queues up to 2^13 calls
	maxCalls  = 2048 // in flight to one server

	dialTimeout = 250 * time.Millisecond
	// stuckTimeout closes a connection that does not respond.
	stuckTimeout = time.Second
	// identifyTimeout is that of all calls that identify a server, or Options.Timeout if that is longer.
	identifyTimeout = 250 * time.Millisecond
	// startTimeout is how long New waits for the first connection.
	startTimeout = 500 * time.Millisecond
	// refreshInterval is how often Sentinels, or a cluster, are asked for the masters.
	refreshInterval = 2 * time.Second
	// refreshPause is the least time between two such questions.
	refreshPause = 100 * time.Millisecond
)

// New returns a Client. It fails only for an invalid URL or file. If Redis is down, the client connects
// when it is up. The caller must close it.
func New(o Options) (*Client, error) {
	option, err := parse(o)
	if err != nil {
		return nil, err
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{o: o, option: option, masterSet: option.Sentinel.MasterSet, seeds: option.InitAddress, changed: make(chan struct{}, 1), stale: make(chan struct{}, 1), ctx: ctx, stop: cancel}
	c.option.Sentinel = rueidis.SentinelOption{}
	first := c.newServer("")
	if c.masterSet == "" {
		first.Addr = c.seeds[0]
	}
	c.topology.Store(&Topology{Servers: []*Server{first}})
	started := make(chan struct{})
	c.running.Go(func() {
		crash.Do(o.Logger, func() { c.start(first) })
		close(started)
		crash.Keep(ctx, o.Logger, func() { c.run(ctx) })
	})
	select {
	case <-started:
	case <-time.After(startTimeout):
	}
	return c, nil
}

// AtLeast returns the timeout for a call that no request waits for: d, or Options.Timeout if that is longer.
func (c *Client) AtLeast(d time.Duration) time.Duration { return max(d, c.o.Timeout) }

// Check reports an invalid URL and files that cannot be read.
func Check(o Options) error {
	_, err := parse(o)
	return err
}

func parse(o Options) (rueidis.ClientOption, error) {
	option, err := rueidis.ParseURL(o.URL)
	if err != nil {
		// The parser's message may contain a part of the password.
		return option, errors.New("redis.url is not an address; write redis://user:password@host:port/0, or rediss:// for TLS")
	}
	option.DisableCache, option.DisableRetry, option.AlwaysPipelining = true, true, true
	// One pipelined connection for each server: a probe checks the connection that calls use.
	option.ForceSingleClient = true
	option.RingScaleEachConn, option.PipelineMultiplex = ringScale, -1
	option.Dialer.Timeout, option.ConnWriteTimeout = max(dialTimeout, o.Timeout), max(stuckTimeout, o.Timeout)
	option.ClientName, option.ClientSetInfo = "isogloss", rueidis.DisableClientSetInfo
	resp.Guard(&option)
	return option, addFiles(&option, o)
}

// addFiles adds the trusted certificates and the client's own to the TLS settings.
func addFiles(option *rueidis.ClientOption, o Options) error {
	if o.CA == "" && o.Cert == "" && o.Key == "" {
		return nil
	}
	if option.TLSConfig == nil {
		return errors.New("redis.ca, redis.cert and redis.key are for TLS; write rediss:// in redis.url, or remove them")
	}
	if o.CA != "" {
		text, err := os.ReadFile(o.CA)
		if err != nil {
			return fmt.Errorf("redis.ca: %w; write a PEM file with the trusted certificates", err)
		}
		option.TLSConfig.RootCAs = x509.NewCertPool()
		if !option.TLSConfig.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("redis.ca: %s has no certificate; write a PEM file with the trusted certificates", o.CA)
		}
	}
	if o.Cert == "" && o.Key == "" {
		return nil
	}
	read := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("redis.cert and redis.key: %w; write PEM files with the gateway's certificate and its private key", err)
		}
		return &pair, nil
	}
	option.TLSConfig.GetClientCertificate = read
	_, err := read(nil)
	return err
}

// dial connects to an address.
func (c *Client) dial(addr string) (rueidis.Client, error) {
	option := c.option
	option.InitAddress = []string{addr}
	if option.TLSConfig != nil {
		option.TLSConfig = option.TLSConfig.Clone()
		// A server that is announced by its IP address may have a certificate for the name in the URL.
		if host, _, err := net.SplitHostPort(addr); err == nil && net.ParseIP(host) == nil {
			option.TLSConfig.ServerName = host
		}
	}
	return rueidis.NewClient(option)
}

// start connects for the first time.
func (c *Client) start(first *Server) {
	err := errUnreached
	if c.masterSet == "" {
		err = first.identify(c.ctx)
	}
	if c.masterSet != "" || errors.Is(err, errCluster) {
		c.refresh(c.ctx)
		if first.member.Load() {
			err = first.identify(c.ctx)
		}
	}
	if slices.Contains(c.Topology().Servers, first) {
		first.endProbe(err)
		first.watch()
	}
}

var errUnreached = errors.New("redis cannot be reached")

// run follows the masters.
func (c *Client) run(ctx context.Context) {
	ticker := time.NewTicker(refreshInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-c.stale:
			if !sleep(ctx, refreshPause) {
				return
			}
		}
		c.refresh(ctx)
	}
}

// markStale makes run ask for the masters.
func (c *Client) markStale() {
	select {
	case c.stale <- struct{}{}:
	default:
	}
}

// refresh asks for the masters and connects to new ones. One server that is no cluster stays where it is.
func (c *Client) refresh(ctx context.Context) {
	if c.masterSet == "" && !c.cluster.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var masters []master
	var err error
	if c.masterSet != "" {
		masters, err = c.askSentinels(ctx)
	} else {
		masters, err = c.askCluster(ctx)
	}
	if err != nil || len(masters) == 0 || ctx.Err() != nil {
		return
	}
	c.use(masters)
}

// use replaces the topology if it has changed. It waits for the first probe of new servers, so that they
// are usable when they appear.
func (c *Client) use(masters []master) {
	old := c.Topology()
	next := newTopology(masters, old, c.newServer)
	if next == nil {
		return
	}
	var added []*Server
	var probes sync.WaitGroup
	for _, s := range next.Servers {
		if !slices.Contains(old.Servers, s) {
			added = append(added, s)
			probes.Go(func() {
				s.endProbe(crash.Try(c.o.Logger, func() error { return s.identify(c.ctx) }))
			})
		}
	}
	probes.Wait()
	for _, s := range added {
		s.watch()
	}
	for _, s := range c.retired {
		s.close()
	}
	c.retired = nil
	for _, s := range old.Servers {
		if !slices.Contains(next.Servers, s) {
			c.retired = append(c.retired, s) // calls may be in flight
			s.stop()
		}
	}
	c.topology.Store(next)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Topology returns the servers and their keys.
func (c *Client) Topology() *Topology { return c.topology.Load() }

// Changed receives a value after the topology has changed.
func (c *Client) Changed() <-chan struct{} { return c.changed }

// Server returns the server of a key.
func (c *Client) Server(key string) *Server { return c.Topology().Server(key) }

// OnLost sets a function that is called when a server is lost. It must not block.
func (c *Client) OnLost(f func(*Server, error)) { c.lost.Store(&f) }

// Lost reports whether a server is lost.
func (c *Client) Lost() bool { return slices.ContainsFunc(c.Topology().Servers, (*Server).Lost) }

// Close closes the connections.
func (c *Client) Close() {
	c.stop()
	c.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range append(c.retired, c.Topology().Servers...) {
		s.close()
	}
	c.retired = nil
	if c.sentinel != nil {
		c.sentinel.Close()
	}
}

// sleep waits for d and reports whether ctx is still active.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
