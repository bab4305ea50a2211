package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/relay"
)

// life is what the process does from its first request to its end. There are two
// ways to leave: it is told to end, or another process has taken over.
type life struct {
	*servers
	process Process
	pace    pace
	gateway *relay.Relay
	logger  *slog.Logger
	leave   func() // called when the end begins

	serving sync.WaitGroup
	broken  chan error // of a listener
}

// begin serves, and says so to the process before.
func (l *life) begin(ctx context.Context) error {
	l.broken = make(chan error, 2)
	for _, s := range l.each() {
		l.serving.Go(func() { l.broken <- s.Serve(s.listener) })
	}
	err := l.process.Ready(ctx, l.logger)
	if err != nil {
		l.close()
		l.serving.Wait()
	}
	return err
}

// last serves until the context ends, a listener breaks or another process has
// taken over, and returns when no request is open any more.
func (l *life) last(ctx context.Context) error {
	defer l.serving.Wait()
	defer l.close()
	select {
	case <-ctx.Done():
		l.drain()
	case err := <-l.broken:
		l.drain()
		return err
	case <-l.process.Replaced():
		l.finish(ctx)
	}
	return nil
}

// part makes /health say that this process leaves, and asks clients to leave their
// connections.
func (l *life) part(message string, atMost time.Duration) {
	l.gateway.Drain()
	l.leaving.Store(true)
	l.leave()
	l.logger.Info(message, "at_most", atMost.String())
}

// drain closes the port, after a notice, and waits for open requests.
func (l *life) drain() {
	l.part("draining", l.pace.notice+l.pace.drain+l.pace.lastWords)
	time.Sleep(l.pace.notice)
	l.shutdown(l.pace.drain)
}

// finish leaves the ports to the process that has them now, and serves what comes
// on connections that are open until there has been quiet for a while. To shut down
// after a fixed time would lose requests of clients that have just read a stream to
// its end and go on with its connection: 5 in ten restarts, where this lost none. To
// be told to end cuts it short.
func (l *life) finish(ctx context.Context) {
	l.part("another process has taken over; what is open is finished", l.pace.finish+l.pace.lastWords)
	for _, s := range l.each() {
		_ = s.listener.Close() // first of all: what comes from now on is the other's
	}
	enough := time.NewTimer(l.pace.finish)
	defer enough.Stop()
	tick := time.NewTicker(l.pace.lameDuck / 20)
	defer tick.Stop()
	for since := time.Now(); min(l.conns.quiet(), time.Since(since)) < l.pace.lameDuck; {
		select {
		case <-tick.C:
		case <-enough.C:
			l.shutdown(0)
			return
		case <-ctx.Done():
			l.drain()
			return
		}
	}
	l.shutdown(l.pace.drain)
}

// shutdown closes the port and waits for open requests. Those that take too long
// end with an error in their own dialect, not with a cut. The operator's side stays
// until then.
func (l *life) shutdown(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.data.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	l.logger.Warn("requests that are still open are ended")
	l.abort(relay.ErrShutdown)
	last, stop := context.WithTimeout(context.Background(), l.pace.lastWords)
	defer stop()
	_ = l.data.Shutdown(last)
}

// close cuts what is left.
func (l *life) close() {
	for _, s := range l.each() {
		_ = s.Close()
	}
	l.abort(nil)
}
