// Package nodes makes the gateways that share a store known to each other's operators.
package nodes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

const (
	// Interval is the time between two reports of a node.
	Interval = 15 * time.Second
	// Silence is the time without a report after which a node is probably gone. It leaves room for
	// clocks that differ and for a slow store.
	Silence = time.Minute

	lastReport = time.Second // most time for the report of the end
)

// Store keeps what is known of the nodes.
type Store interface {
	AddNode(ctx context.Context, n store.Node, text string) error
	UpdateNode(ctx context.Context, n store.Node, text string) error
}

// Self describes this process.
type Self interface {
	Node() store.Node
	// Config returns the encoded configuration, without secrets.
	Config() string
}

// Run reports this process to the store until the context ends, and then that it has stopped.
func Run(ctx context.Context, s Store, self Self, logger *slog.Logger) {
	r := reporter{store: s, self: self, logger: logger}
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		r.report(ctx, time.Time{})
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReport)
			defer cancel()
			r.report(last, time.Now())
			return
		case <-tick.C:
		}
	}
}

type reporter struct {
	store  Store
	self   Self
	logger *slog.Logger
	known  bool   // the store has this process
	config string // digest of the configuration that the store has
	failed bool   // the last report failed
}

func (r *reporter) report(ctx context.Context, stopped time.Time) {
	n, text := r.self.Node(), ""
	n.Stopped = stopped
	if n.Config != r.config {
		text = r.self.Config()
	}
	put := r.store.UpdateNode
	if !r.known {
		put = r.store.AddNode
	}
	err := put(ctx, n, text)
	if err != nil {
		if !r.failed && ctx.Err() == nil {
			r.logger.Warn("this node cannot be reported to the store", "error", err)
		}
		r.failed = true
		return
	}
	r.known, r.config, r.failed = true, n.Config, false
}

// Digest returns a short digest of an encoded configuration.
func Digest(config string) string {
	sum := sha256.Sum256([]byte(config))
	return hex.EncodeToString(sum[:8])
}
