package cell

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/isogloss-gateway/isogloss/internal/crash"
)

const (
	checkEvery   = 2 * time.Second
	checkTimeout = 2 * time.Second
	maxFailures  = 3 // failed checks or connections in a row after which a cell is down
)

// health holds which cells are down. A cell is up until it has failed.
type health struct {
	logger *slog.Logger
	mu     sync.RWMutex
	cells  map[string]*state
}

type state struct {
	failures int
	isDown   bool
}

// use takes the cells of a configuration and keeps what is known of them.
func (h *health) use(c *Config) {
	h.mu.Lock()
	defer h.mu.Unlock()
	cells := map[string]*state{}
	for name := range c.Cells {
		if cells[name] = h.cells[name]; cells[name] == nil {
			cells[name] = &state{}
		}
	}
	h.cells = cells
}

func (h *health) down(name string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	s := h.cells[name]
	return s != nil && s.isDown
}

// failed counts a failed check or connection.
func (h *health) failed(name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.cells[name]
	if s == nil {
		return
	}
	if s.failures++; s.failures >= maxFailures && !s.isDown {
		s.isDown = true
		h.logger.Warn("cell is down", "cell", name, "error", err)
	}
}

// succeeded counts a check that succeeded.
func (h *health) succeeded(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.cells[name]
	if s == nil {
		return
	}
	if s.isDown {
		h.logger.Info("cell is back", "cell", name)
	}
	*s = state{}
}

// Watch checks the cells until ctx ends: /ready of a cell must respond with 200.
func (r *Router) Watch(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		r.checkAll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Router) checkAll(ctx context.Context) {
	var all sync.WaitGroup
	for name, cell := range r.config.Load().Cells {
		all.Go(func() {
			err := crash.Try(r.logger, func() error { return r.check(ctx, cell) }, "cell", name)
			switch {
			case ctx.Err() != nil:
			case err != nil:
				r.health.failed(name, err)
			default:
				r.health.succeeded(name)
			}
		})
	}
	all.Wait()
}

// check asks a cell whether it is ready.
func (r *Router) check(ctx context.Context, cell *Cell) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cell.url.JoinPath("ready").String(), nil)
	if err != nil {
		return err
	}
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errNotReady(resp.StatusCode)
	}
	return nil
}

type errNotReady int

// Error implements error.
func (e errNotReady) Error() string { return "the cell is not ready: " + http.StatusText(int(e)) }

// upDesc describes the gauge of cells.
func upDesc() *prometheus.Desc {
	return prometheus.NewDesc("isogloss_route_cell_up", "1 if the cell responds.", []string{"cell"}, nil)
}

// Describe implements prometheus.Collector.
func (h *health) Describe(to chan<- *prometheus.Desc) { to <- upDesc() }

// Collect implements prometheus.Collector.
func (h *health) Collect(to chan<- prometheus.Metric) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for name, s := range h.cells {
		up := 1.0
		if s.isDown {
			up = 0
		}
		to <- prometheus.MustNewConstMetric(upDesc(), prometheus.GaugeValue, up, name)
	}
}
