package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/base/heap"
	"github.com/isogloss-gateway/isogloss/internal/edge/handover"
)

// untilSignal returns a context that the first signal cancels. The second signal ends
// the process.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals)
		cancel()
	}()
	return ctx
}

// runServe runs the gateway. SIGHUP replaces the process.
func runServe(ctx context.Context, o app.Options, pidFile string) error {
	if err := disableCoreDumps(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heap.Tune(ctx)
	process, err := handover.New(handover.Options{PIDFile: pidFile, Restarts: hangups(cancel)})
	switch {
	case err == nil:
		defer process.Close()
		o.Process = process
	case pidFile != "" || !errors.Is(err, handover.ErrNotSupported): // unsupported: serve without restarts
		return err
	}
	return app.Run(ctx, o)
}

// hangups returns the SIGHUPs that request a restart. A SIGHUP from a closed terminal
// calls end instead: a new process would continue without a terminal.
func hangups(end func()) <-chan os.Signal {
	signals, restarts := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	had := hasTerminal()
	go func() {
		for s := range signals {
			if had && !hasTerminal() {
				end()
				continue
			}
			restarts <- s
		}
	}()
	return restarts
}

// hasTerminal reports whether the process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err == nil {
		_ = f.Close()
	}
	return err == nil
}
