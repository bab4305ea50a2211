package fleet

import (
	"log/slog"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
)

// changeLog logs the changes of state that an operator must know.
type changeLog struct{ logger *slog.Logger }

// target logs that a target goes out of service or comes back.
func (l changeLog) target(c health.Change) {
	target := c.ID[:max(0, strings.LastIndexByte(c.ID, '@'))] // the rest is the address
	if c.First {
		l.logger.Warn("target's model does not exist at its provider", "target", target, "reason", c.Reason)
		return
	}
	if c.Ready {
		l.logger.Info("target back in service", "target", target, "outage", c.Outage.Round(time.Millisecond).String())
		return
	}
	attrs := []any{"target", target, "reason", c.Reason, "error", c.Error}
	if !c.Until.IsZero() {
		attrs = append(attrs, "until", c.Until.UTC().Format(time.RFC3339))
	}
	l.logger.Warn("target out of service", attrs...)
}

// Served records that a target has served a request. first says that it is the first
// target of a model whose targets are tried in order. If it is not, the model is served
// by a fallback, which is logged when it begins and when it has ended.
func (f *Fleet) Served(r *route.Route, target string, first bool) {
	switch entered, left := r.Fallback.Served(first); {
	case entered:
		f.log.logger.Warn("model served by a fallback target", "model", r.Name, "target", target)
	case left != nil:
		f.log.logger.Info("model served by its first target again", "model", r.Name, "target", target,
			"requests", left.Requests, "duration", left.Duration.Round(time.Millisecond).String())
	}
}
