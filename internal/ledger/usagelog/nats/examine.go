package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
)

// Examine returns the facts of the servers and the stream. It creates nothing.
func (l *Log) Examine(ctx context.Context) (f usagelog.Facts, err error) {
	js, err := l.connect()
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		err = fmt.Errorf("%w: %w", usagelog.ErrAccount, err)
	case errors.Is(err, nats.ErrNoServers):
		err = fmt.Errorf("%w: %w", usagelog.ErrAway, err)
	}
	if err != nil {
		return f, err
	}
	begun := time.Now()
	s, err := js.Stream(ctx, l.o.Stream)
	f.Latency, f.Servers = time.Since(begun), len(l.conn.Servers())
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		f.Missing = true
		return f, nil
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return f, fmt.Errorf("%w: %w", usagelog.ErrJetStream, err)
	case err != nil:
		return f, err
	}
	f.Replicas = s.CachedInfo().Config.Replicas
	return f, nil
}
