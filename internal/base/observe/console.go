package observe

import (
	"io"
	"log/slog"
	"strings"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// isTerminal reports whether the log is written to a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && isatty.IsTerminal(f.Fd())
}

// newConsole returns the handler for a person at a terminal: a short time, colours, and
// only the attributes that say something.
func newConsole(o Options, out io.Writer) slog.Handler {
	return tint.NewTextHandler(out, &tint.Options{Level: o.Level, TimeFormat: "15:04:05.000", NoColor: o.Plain, ReplaceAttr: dropUsual})
}

// dropUsual removes attributes whose value is the usual one, and those that only a
// program reads.
func dropUsual(_ []string, a slog.Attr) slog.Attr {
	drop := false
	switch a.Key {
	case attrDialect, attrProvider, attrUpstreamStream, attrUpstreamID, attrUpstreamProtocol, attrEvents, attrBytesIn, attrBytesOut:
		drop = true
	case attrStream:
		drop = !a.Value.Bool()
	case attrCacheRead, attrCacheWrite, attrReasoning, attrCost:
		drop = a.Value.Int64() == 0
	case attrAttempts:
		drop = a.Value.Int64() == 1
	case attrFailed:
		if list, ok := a.Value.Any().([]string); ok {
			return slog.String(a.Key, strings.Join(list, "; "))
		}
	case attrFidelity:
		drop = a.Value.String() == "exact"
	}
	if drop {
		return slog.Attr{}
	}
	return a
}
