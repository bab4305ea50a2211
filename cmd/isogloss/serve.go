package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/handover"
)

// untilSignal is a context that ends with the first signal. The second one ends the
// process at once.
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

// runServe runs the gateway in a process that SIGHUP replaces.
func runServe(ctx context.Context, o app.Options, pidFile string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	process, err := handover.New(handover.Options{PIDFile: pidFile, Restarts: hangups(cancel)})
	switch {
	case err == nil:
		defer process.Close()
		o.Process = process
	case pidFile != "" || !errors.Is(err, handover.ErrNotSupported): // without, there are no restarts; all else works
		return err
	}
	return app.Run(ctx, o)
}

// hangups are the SIGHUPs that ask for a restart. The one that comes because the
// terminal is gone ends the gateway, as it ends other programs: a new process would
// live on where nobody sees it.
func hangups(end func()) <-chan os.Signal {
	signals, wishes := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	had := hasTerminal()
	go func() {
		for s := range signals {
			if had && !hasTerminal() {
				end()
				continue
			}
			wishes <- s
		}
	}()
	return wishes
}

// hasTerminal reports whether there is a terminal whose end is this process's.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err == nil {
		_ = f.Close()
	}
	return err == nil
}
