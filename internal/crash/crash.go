// Package crash keeps a panic in one goroutine from ending the process.
//
// net/http recovers only in its handlers, and logs the value of the panic: so handlers run
// below Handler. Every other goroutine that reads what an upstream, a client or a store has
// sent runs below Try, Do or Keep.
package crash

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// Pause is the time before Keep runs a function again.
const Pause = time.Second

// Log writes the line of a panic that was recovered, with the stack. It does not write
// the panic's value, which may quote a body. Attributes name what has panicked.
func Log(l *slog.Logger, attributes ...any) {
	l.Error("panic", append(attributes, "stack", string(debug.Stack()))...)
}

// ErrPanic is the error of a function that has panicked.
var ErrPanic = errors.New("the gateway failed on this; its log has the place")

// Try runs f and returns its error. A panic is logged and returned as ErrPanic.
func Try(l *slog.Logger, f func() error, attributes ...any) (err error) {
	if !Do(l, func() { err = f() }, attributes...) {
		return ErrPanic
	}
	return err
}

// Do runs f and reports whether it has returned. A panic is logged.
func Do(l *slog.Logger, f func(), attributes ...any) (returned bool) {
	defer func() {
		if fault := recover(); fault != nil {
			Log(l, attributes...)
			returned = false
		}
	}()
	f()
	return true
}

// Keep runs f until it returns or the context ends. After a panic, which is logged, it runs
// f again after a pause.
func Keep(ctx context.Context, l *slog.Logger, f func(), attributes ...any) {
	for !Do(l, f, attributes...) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(Pause):
		}
	}
}

// Handler returns a handler that aborts the response when h panics, like one without Handler.
// The panic is logged without its value. http.ErrAbortHandler is not logged.
func Handler(l *slog.Logger, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer recoverHandler(l)
		h.ServeHTTP(w, r)
	})
}

// recoverHandler is a function of its own to keep the stack frame of Handler small: open
// streams wait in it.
func recoverHandler(l *slog.Logger) {
	fault := recover()
	if fault == nil {
		return
	}
	if err, ok := fault.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		Log(l)
	}
	panic(http.ErrAbortHandler)
}
