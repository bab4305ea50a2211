package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/capture"
	"github.com/isogloss-gateway/isogloss/internal/relay"
	"github.com/isogloss-gateway/isogloss/internal/store"
)

// looking lets operators of this machine look on at exchanges.
type looking struct {
	hub    *capture.Hub
	logger *slog.Logger
	stores *stores
	server *capture.Server // nil until it is opened, or where it cannot be
}

func newLooking(gateway *relay.Relay, shared *stores, logger *slog.Logger, version string) *looking {
	l := &looking{hub: &capture.Hub{Version: version}, logger: logger, stores: shared}
	gateway.Watch(l.hub)
	return l
}

// open makes the socket, once this process is the one that serves. Without it
// everything else works.
func (l *looking) open(listen string, bound net.Addr) {
	server, err := capture.Serve(capture.Options{Hub: l.hub, Address: capture.AddressOf(listen, bound), Logger: l.logger, Attached: l.audit})
	if err != nil {
		l.logger.Warn("'isogloss capture' will not find this gateway", "error", err.Error())
		return
	}
	l.server = server
}

func (l *looking) close() {
	if l.server != nil {
		l.server.Close()
	}
}

// auditPatience is how long the store may take; a capture does not wait for it.
const auditPatience = 10 * time.Second

// audit notes who looks on, where there is a store.
func (l *looking) audit(uid string, f capture.Filter) {
	if l.stores.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), auditPatience)
	defer cancel()
	what, _ := json.Marshal(f) // a struct of texts and numbers can be written
	if err := l.stores.store.Audit(ctx, store.Entry{At: time.Now(), Actor: "uid:" + uid, Action: "capture", Detail: string(what)}); err != nil {
		l.logger.Warn("that a capture was attached could not be written to the audit log", "error", err.Error())
	}
}
