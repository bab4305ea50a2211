package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
)

// life runs the servers from start-up to exit. The process exits on a signal or after
// another process has taken over.
type life struct {
	*servers
	process Process
	pace    pace
	gateway *relay.Relay
	logger  *slog.Logger
	leave   func() // called when the shutdown starts

	serving sync.WaitGroup
	broken  chan error // receives the error of a failed listener
}

// begin starts serving and notifies the previous process.
func (l *life) begin(ctx context.Context) error {
	l.broken = make(chan error, len(l.each()))
	for _, s := range l.each() {
		l.serving.Go(func() { l.broken <- s.serve(&l.leaving) })
	}
	err := l.process.Ready(ctx, l.logger)
	if err != nil {
		l.close()
		l.serving.Wait()
	}
	return err
}

// last serves until the context ends, a listener fails or another process takes over.
// It returns when no request is open.
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

// announceExit makes /health report draining and asks clients to close their connections.
func (l *life) announceExit(message string, atMost time.Duration) {
	l.gateway.Drain()
	l.leaving.Store(true)
	l.leave()
	l.logger.Info(message, "at_most", atMost.String())
}

// drain waits for the notice period, closes the port and waits for open requests.
func (l *life) drain() {
	l.announceExit("draining", l.pace.notice+l.pace.drain+l.pace.errorTime)
	time.Sleep(l.pace.notice)
	l.shutdown(l.pace.drain)
}

// finish closes the listeners of a replaced process and serves open connections until
// they have been idle for a while. A fixed time would lose requests of clients that
// reuse a connection right after a stream: 5 in ten restarts, where this lost none. A
// signal ends the wait.
func (l *life) finish(ctx context.Context) {
	for _, s := range l.each() {
		_ = s.listener.Close() // first: new connections go to the new process
	}
	l.announceExit("another process has taken over; open requests are finished", l.pace.finish+l.pace.errorTime)
	enough := time.NewTimer(l.pace.finish)
	defer enough.Stop()
	tick := time.NewTicker(l.pace.lameDuck / 20)
	defer tick.Stop()
	for since := time.Now(); min(l.conns.Quiet(), time.Since(since)) < l.pace.lameDuck; {
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

// shutdown closes the port and waits for open requests. Requests that exceed the drain
// time end with an error in their dialect. The admin port stays open until then.
func (l *life) shutdown(patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !errors.Is(l.waitForRequests(ctx), context.DeadlineExceeded) {
		return
	}
	l.logger.Warn("requests that are still open are ended")
	l.abort(upstream.ErrShutdown)
	last, stop := context.WithTimeout(context.Background(), l.pace.errorTime)
	defer stop()
	_ = l.waitForRequests(last)
}

// waitForRequests closes the ports and waits for the requests of clients, and for those that operators
// run.
func (l *life) waitForRequests(ctx context.Context) error {
	err := l.data.Shutdown(ctx)
	if l.admin != nil {
		err = errors.Join(err, l.admin.Shutdown(ctx))
	}
	return err
}

// close closes the remaining connections.
func (l *life) close() {
	for _, s := range l.each() {
		_ = s.Close()
	}
	l.abort(nil)
}
