package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
)

const nodes = 3

// cluster is three gateways on three stores, with an upstream behind them and
// clients before them.
type cluster struct {
	redis, postgres, etcd *storetest.Server
	nodes                 []*gateway
	way                   *proxy // from the gateways to etcd
	up                    *upstream
	clients               *clients
	dir                   string
	bin                   string
	ends                  []func() // what scenarios have started besides
}

// newCluster starts everything.
func newCluster(ctx context.Context, bin, dir string) (*cluster, error) {
	c := &cluster{dir: dir, bin: bin, clients: newClients()}
	err := c.startStores()
	if err == nil {
		c.up, err = newUpstream()
	}
	if err == nil {
		c.way, err = newProxy(c.etcd.Addr)
	}
	for i := 0; err == nil && i < nodes; i++ {
		var g *gateway
		g, err = newGateway(bin, dir, fmt.Sprintf("gw-%d", i+1))
		if err != nil {
			break
		}
		g.env = append(g.env, "PEPPER="+pepperText)
		c.nodes = append(c.nodes, g)
		err = g.configure(c.settings(), c.up)
	}
	if err == nil {
		err = c.startNodes(ctx)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cluster) settings() settings {
	return settings{store: c.postgres.URL, redis: c.redis.URL, etcd: "http://" + c.way.addr}
}

// startStores starts the three at the same time.
func (c *cluster) startStores() error {
	var wg sync.WaitGroup
	errs := make([]error, 3)
	wg.Go(func() { c.redis, errs[0] = storetest.RunRedis(filepath.Join(c.dir, "stores")) })
	wg.Go(func() { c.postgres, errs[1] = storetest.RunPostgres(filepath.Join(c.dir, "stores")) })
	wg.Go(func() { c.etcd, errs[2] = storetest.RunEtcd(filepath.Join(c.dir, "stores")) })
	wg.Wait()
	return errors.Join(errs...)
}

// startNodes starts all gateways. The first one goes ahead: it makes the tables.
func (c *cluster) startNodes(ctx context.Context) error {
	if err := c.nodes[0].start(ctx); err != nil {
		return err
	}
	for _, g := range c.nodes[1:] {
		if err := g.launch(); err != nil {
			return err
		}
	}
	for _, g := range c.nodes[1:] {
		if err := g.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close ends everything.
func (c *cluster) close() {
	for _, end := range c.ends {
		end()
	}
	for _, g := range c.nodes {
		g.close()
	}
	for _, s := range []*storetest.Server{c.redis, c.postgres, c.etcd} {
		if s != nil {
			s.Thaw()
			s.Close()
		}
	}
	if c.way != nil {
		c.way.close()
	}
	if c.up != nil {
		c.up.close()
	}
	c.clients.close()
}

// ask sends a wish to the node that it names.
func (c *cluster) ask(ctx context.Context, w wish) asked {
	return c.clients.ask(ctx, c.nodes[w.node].url, w)
}
