// Package crash keeps a panic in one goroutine from ending the process.
//
// net/http recovers in its handlers, and logs the value of the panic: so each server has a
// ServerLog. Every other goroutine that reads what an upstream, a client or a store has sent
// runs below Try, Do or Keep.
package crash

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"runtime/debug"
	"strings"
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

// ServerLog returns a log for http.Server. It takes the value out of a handler's panic, which the server logs with its
// stack, and writes anything else at the level debug. A handler that recovers would need stack in every open stream.
func ServerLog(l *slog.Logger) *log.Logger { return log.New(serverLog{l}, "", 0) }

type serverLog struct{ logger *slog.Logger }

func (s serverLog) Write(p []byte) (int, error) {
	text := strings.TrimSuffix(string(p), "\n")
	if _, _, panicked := strings.Cut(text, ": panic serving "); panicked {
		// The stack comes last, so a value with such a line hides nothing.
		s.logger.Error("panic", "stack", text[strings.LastIndex(text, "\ngoroutine ")+1:])
	} else {
		s.logger.Debug(text)
	}
	return len(p), nil
}
