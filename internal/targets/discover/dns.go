package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// DNSOptions configures the DNS source.
type DNSOptions struct {
	Names    []Name
	Every    time.Duration // default 5 s
	Resolver Resolver      // default: the system's
	Logger   *slog.Logger  // default: no log
}

// Resolver has the methods of *net.Resolver that DNS uses.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

type dns struct{ DNSOptions }

// DNS returns the source that resolves names periodically.
func DNS(o DNSOptions) (Source, error) {
	o.Every = cmp.Or(o.Every, 5*time.Second)
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for i, n := range o.Names {
		if n.Name == "" || n.Model == "" || n.Protocol == "" || n.Port < 0 || n.Port > 65535 {
			return nil, fmt.Errorf("dns[%d]: it needs name, model, protocol, and a port up to 65535 unless the name has SRV records", i)
		}
	}
	return dns{o}, nil
}

func (d dns) Name() string { return "dns" }

// Watch resolves all names periodically. For each name it keeps the last result while
// the name server does not respond; a response that the name does not exist removes its
// workers.
func (d dns) Watch(ctx context.Context, tell func(Change)) {
	found := make([][]Worker, len(d.Names))
	var often logInterval
	for ctx.Err() == nil {
		at, answered := time.Now(), 0
		for i, n := range d.Names {
			workers, err := d.resolve(ctx, n)
			if err != nil {
				if ctx.Err() == nil && often.now() {
					d.Logger.Warn("a name of workers cannot be resolved; those that are known are kept", "name", n.Name, "error", err.Error())
				}
				continue
			}
			found[i] = workers
			answered++
		}
		d.report(found, answered, at, tell)
		select {
		case <-ctx.Done():
		case <-time.After(jitter(d.Every)):
		}
	}
}

// report sends the known workers. Before a name was resolved once, its workers from the
// disk must stay.
func (d dns) report(found [][]Worker, answered int, at time.Time, tell func(Change)) {
	c := Change{All: true, At: at}
	for _, workers := range found {
		if workers == nil {
			c.All = false
		}
		c.Put = append(c.Put, workers...)
	}
	if answered > 0 {
		tell(c)
	}
	if answered < len(d.Names) {
		tell(Change{Stale: true})
	}
}

// resolve returns the workers of a name. The list is not nil if the error is nil.
func (d dns) resolve(ctx context.Context, n Name) ([]Worker, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Every)
	defer cancel()
	targets := []*net.SRV{{Target: n.Name, Port: uint16(n.Port)}}
	if n.Port == 0 {
		var err error
		if _, targets, err = d.Resolver.LookupSRV(ctx, "", "", n.Name); missing(err) {
			return []Worker{}, nil
		} else if err != nil {
			return nil, err
		}
	}
	workers := []Worker{}
	for _, t := range targets {
		addrs, err := d.Resolver.LookupNetIP(ctx, "ip", t.Target)
		if err != nil && !missing(err) {
			return nil, err
		}
		for _, a := range addrs {
			workers = append(workers, n.worker(netip.AddrPortFrom(a.Unmap(), t.Port), int(t.Weight)))
		}
	}
	return workers, nil
}

// missing reports whether the name server responded that the name does not exist.
func missing(err error) bool {
	var d *net.DNSError
	return errors.As(err, &d) && d.IsNotFound && !d.IsTimeout && !d.IsTemporary
}

// worker returns the worker at an address. Its id depends only on name, address and
// port, so that it stays the same.
func (n Name) worker(at netip.AddrPort, weight int) Worker {
	path := n.Path
	if path == "" && strings.HasPrefix(n.Protocol, "openai-") {
		path = "/v1"
	}
	u := url.URL{Scheme: cmp.Or(n.Scheme, "http"), Host: net.JoinHostPort(at.Addr().String(), strconv.Itoa(int(at.Port()))), Path: path}
	return Worker{ID: n.Model + "@" + u.Host, Model: n.Model, Protocol: n.Protocol, URL: u.String(), Weight: weight}
}
