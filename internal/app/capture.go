package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/request/capture"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
)

// captureSocket serves the socket of `isogloss capture`.
type captureSocket struct {
	hub    *capture.Hub
	logger *slog.Logger
	stores *stores
	server *capture.Server // nil until opened, or if opening failed
}

func newCaptureSocket(gateway *relay.Relay, shared *stores, logger *slog.Logger, version string) *captureSocket {
	l := &captureSocket{hub: &capture.Hub{Version: version}, logger: logger, stores: shared}
	gateway.Watch(l.hub)
	return l
}

// open creates the socket when this process starts to serve. A failure is logged and has
// no other effect.
func (l *captureSocket) open(listen string, bound net.Addr) {
	server, err := capture.Serve(capture.Options{Hub: l.hub, Address: capture.AddressOf(listen, bound), Logger: l.logger, Attached: l.audit})
	if err != nil {
		l.logger.Warn("'isogloss capture' will not find this gateway", "error", err.Error())
		return
	}
	l.server = server
}

func (l *captureSocket) close() {
	if l.server != nil {
		l.server.Close()
	}
}

// auditPatience limits the time of the audit entry. A capture does not wait for it.
const auditPatience = 10 * time.Second

// audit writes an audit entry for an attachment, if there is a store.
func (l *captureSocket) audit(uid string, f capture.Filter) {
	if l.stores.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), auditPatience)
	defer cancel()
	what, _ := json.Marshal(f) // a struct of strings and numbers always encodes
	if err := l.stores.store.Audit(ctx, store.Entry{At: time.Now(), Actor: "uid:" + uid, Action: "capture", Detail: string(what)}); err != nil {
		l.logger.Warn("the audit entry of a capture could not be written", "error", err.Error())
	}
}
