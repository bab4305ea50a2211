package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const nodes = 3

// cluster is three gateways on three stores, with an upstream behind them and clients
// before them.
type cluster struct {
	redis, postgres, etcd *storetest.Server
	nodes                 []*testrig.Gateway
	etcdProxy             *testrig.Proxy // between the gateways and etcd
	up                    *upstream
	http                  *http.Client // of all clients
	exchanges             testrig.History[exchange]
	dir                   string
	bin                   string
	cleanups              []func() // of what scenarios have started besides
}

// newCluster starts everything.
func newCluster(ctx context.Context, bin, dir string) (*cluster, error) {
	c := &cluster{dir: dir, bin: bin, http: testrig.NewClient("").HTTP}
	err := testrig.Run(func() {
		testrig.NoError(c.startStores())
		c.up = testrig.Must(newUpstream())
		c.etcdProxy = testrig.Must(testrig.NewProxy(c.etcd.Addr, nil))
		for i := range nodes {
			c.nodes = append(c.nodes, testrig.Must(c.newNode(fmt.Sprintf("gw-%d", i+1), c.settings())))
		}
		testrig.NoError(c.startNodes(ctx))
	})
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// newNode configures a gateway without starting it.
func (c *cluster) newNode(name string, s settings) (*testrig.Gateway, error) {
	g, err := testrig.NewGateway(c.bin, c.dir, name)
	if err != nil {
		return nil, err
	}
	g.Env = append(g.Env, "PEPPER="+pepperText)
	return g, g.Configure(s.yaml(g, c.up))
}

func (c *cluster) settings() settings {
	return settings{store: c.postgres.URL, redis: c.redis.URL, etcd: "http://" + c.etcdProxy.Addr}
}

// startStores starts the three stores at the same time.
func (c *cluster) startStores() error {
	var wg sync.WaitGroup
	errs := make([]error, 3)
	wg.Go(func() { c.redis, errs[0] = storetest.RunRedis(filepath.Join(c.dir, "stores")) })
	wg.Go(func() { c.postgres, errs[1] = storetest.RunPostgres(filepath.Join(c.dir, "stores")) })
	wg.Go(func() { c.etcd, errs[2] = storetest.RunEtcd(filepath.Join(c.dir, "stores")) })
	wg.Wait()
	return errors.Join(errs...)
}

// startNodes starts the first gateway, which creates the tables, and then the others.
func (c *cluster) startNodes(ctx context.Context) error {
	if err := c.nodes[0].Start(ctx); err != nil {
		return err
	}
	errs := make([]error, len(c.nodes))
	testrig.Each(len(c.nodes)-1, nodes, func(i int) { errs[i] = c.nodes[i+1].Start(ctx) })
	return errors.Join(errs...)
}

// close stops everything.
func (c *cluster) close() {
	for _, cleanup := range c.cleanups {
		cleanup()
	}
	for _, g := range c.nodes {
		g.Close()
	}
	for _, s := range []*storetest.Server{c.redis, c.postgres, c.etcd} {
		if s != nil {
			s.Thaw()
			s.Close()
		}
	}
	if c.etcdProxy != nil {
		c.etcdProxy.Close()
	}
	if c.up != nil {
		c.up.Close()
	}
	c.http.CloseIdleConnections()
}
