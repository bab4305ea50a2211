package observe

import (
	"context"
	"log/slog"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/llm"
)

// message is the log message of every exchange.
const message = "exchange"

// The attributes of the log line, in the order in which they are written.
const (
	attrID               = "id"
	attrEndpoint         = "endpoint"
	attrDialect          = "dialect"
	attrClient           = "client"
	attrKey              = "key"
	attrModel            = "model"
	attrRequested        = "requested"
	attrProvider         = "provider"
	attrTarget           = "target"
	attrStream           = "stream"
	attrUpstreamStream   = "upstream_stream"
	attrStatus           = "status"
	attrOutcome          = "outcome"
	attrUpstreamStatus   = "upstream_status"
	attrUpstreamID       = "upstream_id"
	attrUpstreamProtocol = "upstream_protocol"
	attrFinish           = "finish"
	attrInput            = "input_tokens"
	attrCacheRead        = "cache_read_tokens"
	attrCacheWrite       = "cache_write_tokens"
	attrOutput           = "output_tokens"
	attrReasoning        = "reasoning_tokens"
	attrUnits            = "units"
	attrCost             = "cost_nanodollars"
	attrFirstByteMS      = "first_byte_ms"
	attrTTFTMS           = "ttft_ms"
	attrDurationMS       = "duration_ms"
	attrEvents           = "events"
	attrBytesIn          = "bytes_in"
	attrBytesOut         = "bytes_out"
	attrIgnoredTags      = "ignored_tags"
	attrAttempts         = "attempts"
	attrFailed           = "failed"
	attrRecalled         = "recalled"
	attrHedge            = "hedge"
	attrContinued        = "continued"
	attrFidelity         = "fidelity"
	attrErrorKind        = "error_kind"
	attrErrorCode        = "error_code"
	attrErrorCause       = "error_cause"
	attrError            = "error"
	attrTraceID          = "trace_id"
)

const (
	maxName = 128 // maximum bytes of a name that a client or an upstream chose
	maxText = 256 // maximum bytes of a text that the gateway wrote
)

// log writes the log line of the exchange.
func (x *Exchange) log(v verdict, now time.Time) {
	level := slog.LevelInfo
	if v.outcome == UpstreamError || v.outcome == GatewayError {
		level = slog.LevelWarn
	}
	ctx, handler := context.Background(), x.observer.logger.Handler()
	if !handler.Enabled(ctx, level) {
		return
	}
	if x.span != nil { // a collector links the record to the trace
		ctx = trace.ContextWithSpan(ctx, x.span)
	}
	l := x.observer.lines.Get().(*line)
	x.describe(l, v)
	x.measure(l, now)
	x.explain(l, v)
	// Logger.LogAttrs would look up its caller and copy the attributes. A group without
	// a name is written like its attributes.
	r := slog.NewRecord(now, level, message, 0)
	r.AddAttrs(slog.Attr{Value: slog.GroupValue(*l...)})
	_ = handler.Handle(ctx, r) // an error has nowhere to go
	clear(*l)
	*l = (*l)[:0]
	x.observer.lines.Put(l)
}

// describe adds the request, its target and its result.
func (x *Exchange) describe(l *line, v verdict) {
	route := x.named
	l.text(attrID, cut(x.id, maxName))
	l.text(attrEndpoint, x.endpoint)
	l.text(attrDialect, x.dialect)
	l.text(attrClient, cut(x.Client, maxName))
	l.text(attrKey, x.Key)
	l.text(attrModel, route.model)
	if x.Requested != route.model {
		l.text(attrRequested, cut(x.Requested, maxName))
	}
	l.text(attrProvider, route.provider)
	l.text(attrTarget, cut(x.Target, maxName))
	l.add(slog.Bool(attrStream, x.Stream))
	if x.route != nil {
		l.add(slog.Bool(attrUpstreamStream, x.UpstreamStream))
	}
	l.number(attrStatus, int64(v.status))
	l.text(attrOutcome, string(v.outcome))
	l.number(attrUpstreamStatus, int64(x.status))
	l.text(attrUpstreamID, plain.Word(x.UpstreamID))
	l.text(attrUpstreamProtocol, plain.Word(x.UpstreamProtocol))
	l.text(attrFinish, plain.Word(x.Finish))
}

// unitsValue returns the amounts of the units without an attribute of their own, by name.
func unitsValue(u *llm.Usage) slog.Value {
	var list []slog.Attr
	for i, n := range u.Other {
		if n != 0 {
			list = append(list, slog.Int64(llm.OtherUnits()[i].Name, n))
		}
	}
	return slog.GroupValue(list...)
}

// measure adds amounts and durations.
func (x *Exchange) measure(l *line, now time.Time) {
	if u := x.Usage; u != nil {
		l.add(slog.Int64(attrInput, u.Input))
		l.add(slog.Int64(attrCacheRead, u.CacheRead))
		l.add(slog.Int64(attrCacheWrite, u.CacheWrite))
		l.add(slog.Int64(attrOutput, u.Output))
		l.add(slog.Int64(attrReasoning, u.Reasoning))
		if u.Other != (llm.Amounts{}) {
			l.add(slog.Attr{Key: attrUnits, Value: unitsValue(u)})
		}
	}
	if x.Cost != nil {
		l.add(slog.Int64(attrCost, *x.Cost))
	}
	// Whole milliseconds: slog marshals floats by reflection, and the
	// histograms have the fractions.
	if x.firstByte != 0 {
		l.add(slog.Int64(attrFirstByteMS, x.firstByte.Milliseconds()))
	}
	if x.ttft != 0 {
		l.add(slog.Int64(attrTTFTMS, x.ttft.Milliseconds()))
	}
	l.add(slog.Int64(attrDurationMS, now.Sub(x.start).Milliseconds()))
	l.number(attrEvents, x.Events)
	l.number(attrBytesIn, x.BytesIn)
	l.number(attrBytesOut, x.BytesOut)
	l.number(attrIgnoredTags, int64(x.IgnoredTags))
	l.number(attrAttempts, int64(x.Attempts))
	if len(x.failed) > 0 {
		l.add(slog.Any(attrFailed, x.failed))
	}
	l.text(attrRecalled, x.Recalled)
	l.text(attrHedge, x.hedge)
	l.number(attrContinued, int64(x.Continued))
	l.text(attrFidelity, cut(x.Fidelity, maxText))
}

// explain adds the error. After an upstream has responded, a message may copy its text,
// which may quote the prompt or a key: then only the kind, code and cause are written.
func (x *Exchange) explain(l *line, v verdict) {
	l.text(attrErrorKind, string(v.kind))
	if e := x.Err; e != nil {
		l.text(attrErrorCode, plain.Word(e.Code))
		l.text(attrErrorCause, causeWord(e.Cause))
		if !x.answered {
			l.text(attrError, cut(e.Message, maxText))
		}
	}
	if x.span != nil {
		if id := x.span.SpanContext().TraceID(); id.IsValid() {
			l.text(attrTraceID, id.String())
		}
	}
}

// failure describes a failed attempt: the target, the upstream's status if it has
// responded, the kind, the code and the cause. It quotes no message.
func (x *Exchange) failure(err *llm.Error) string {
	text := cut(x.target, maxName)
	if x.status != 0 {
		text += " " + strconv.Itoa(x.status)
	}
	for _, s := range []string{string(known(err.Kind)), plain.Word(err.Code), causeWord(err.Cause)} {
		if s != "" {
			text += " " + s
		}
	}
	return text
}

// line is the attributes of a log line. Empty values are left out.
type line []slog.Attr

func (l *line) add(a slog.Attr) { *l = append(*l, a) }

func (l *line) text(name, value string) {
	if value != "" {
		l.add(slog.String(name, value))
	}
}

func (l *line) number(name string, value int64) {
	if value != 0 {
		l.add(slog.Int64(name, value))
	}
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
