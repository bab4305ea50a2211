package relay

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// collect makes one body of a stream, for a client that did not ask for a stream.
func (r *Relay) collect(x *exchange) *llm.Error {
	buf := buffers.Get().(*[streamBuffer]byte)
	defer buffers.Put(buf)
	events := sse.NewReader(x.upstream.Body, sse.Options{MaxEvent: int(x.state.Limits.Event), Buffer: buf[:]})
	all := x.dialect.NewCollector(x.state.Limits.Answer)
	for over := false; !over; {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			if e, over = lastEvent(events); !over {
				return x.writeCollected(all)
			}
		case err != nil && x.tap.Summary().Complete:
			return x.writeCollected(all) // it was whole before the connection broke
		case err != nil:
			return x.streamError(err)
		}
		done, fault := x.add(all, e)
		if fault != nil {
			return fault
		}
		over = over || done
	}
	return x.writeCollected(all)
}

// add gives one event to the collector. It reports whether it was the last.
func (x *exchange) add(all protocol.Collector, e sse.Event) (bool, *llm.Error) {
	x.seen.Events++
	switch x.mark(e) {
	case protocol.Keepalive:
		return false, nil
	case protocol.Failed:
		return false, x.failure()
	case protocol.Done:
		all.Done()
		return true, nil
	case protocol.Content:
		x.seen.Token(time.Now())
		x.said(len(e.Data))
	case protocol.UsageOnly:
	}
	return false, collected(all.Add(e.Data))
}

func collected(err error) *llm.Error {
	if err == nil {
		return nil
	}
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream's stream cannot be collected into one answer", Cause: err}
}

func (x *exchange) writeCollected(all protocol.Collector) *llm.Error {
	if !x.tap.Summary().Complete {
		return truncated(nil)
	}
	body, err := all.Body()
	if err != nil {
		return collected(err)
	}
	x.upstream.Header["Content-Type"] = []string{"application/json"}
	x.writeWhole(http.StatusOK, body)
	if x.out.flush() == nil { // the client does not wait for the upstream to close
		x.linger()
	}
	return nil
}
