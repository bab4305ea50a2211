package consume

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/clickhouse"
)

// state is what the consumer reports of itself.
type state struct {
	ready                                                                                 atomic.Bool
	partitions, events, messages, blocks, gaps, malformed, forged, parked, failures, weak atomic.Int64
	newest, written                                                                       atomic.Int64 // when the newest event ended, and when its block was written
}

func (c *Consumer) fail(what string, partition int, err error) {
	c.failures.Add(1)
	c.o.Logger.Warn(what, "partition", partition, "error", err)
}

func (c *Consumer) count(messages int, rows []clickhouse.Row) {
	c.blocks.Add(1)
	c.messages.Add(int64(messages))
	c.events.Add(int64(len(rows)))
	if len(rows) > 0 {
		c.newest.Store(ended(&rows[len(rows)-1].Row).UnixNano())
		c.written.Store(time.Now().UnixNano())
	}
}

// ServeHTTP serves /live, /ready and /metrics.
func (c *Consumer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/live":
		_, _ = fmt.Fprintln(w, "ok")
	case "/ready":
		if !c.ready.Load() {
			http.Error(w, "the partitions are not known yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	case "/metrics":
		c.writeMetrics(w)
	default:
		http.NotFound(w, r)
	}
}

func (c *Consumer) writeMetrics(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, m := range []struct {
		name, kind, help string
		value            int64
	}{
		{"isogloss_consume_partitions", "gauge", "Partitions that this consumer reads.", c.partitions.Load()},
		{"isogloss_consume_events_total", "counter", "Usage events that were stored.", c.events.Load()},
		{"isogloss_consume_messages_total", "counter", "Messages that were read.", c.messages.Load()},
		{"isogloss_consume_blocks_total", "counter", "Blocks that were stored.", c.blocks.Load()},
		{"isogloss_consume_gaps_total", "counter", "Messages before which events were missing.", c.gaps.Load()},
		{"isogloss_consume_malformed_total", "counter", "Messages and events that were skipped.", c.malformed.Load()},
		{"isogloss_consume_forged_total", "counter", "Messages without the MAC of a gateway, which were skipped.", c.forged.Load()},
		{"isogloss_consume_parked", "gauge", "Events of a newer version that wait for a newer consumer, in the partitions of this one.", c.parked.Load()},
		{"isogloss_consume_log_weaknesses", "gauge", "Settings of the log under which it may lose events that it has acknowledged.", c.weak.Load()},
		{"isogloss_consume_failures_total", "counter", "Failures of the log or of a store.", c.failures.Load()},
	} {
		_, _ = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
	if at := c.written.Load(); at > 0 {
		_, _ = fmt.Fprintf(w, "# HELP isogloss_consume_delay_seconds Time from the end of the newest request until it was stored.\n# TYPE isogloss_consume_delay_seconds gauge\nisogloss_consume_delay_seconds %g\n",
			time.Duration(at-c.newest.Load()).Seconds())
	}
}
