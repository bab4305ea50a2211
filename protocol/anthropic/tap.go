package anthropic

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// tally accumulates the token counts of a response. A stream reports totals more
// than once, and not all of them each time.
type tally struct {
	seen                                 bool
	invalid                              bool // a count was impossible
	input, read, write, output, thinking int64
	hour                                 int64 // the part of write that is kept for an hour
	tier                                 string
	rest                                 wire.Extra
}

// add replaces counts by newer ones. A zero does not replace a count: servers
// send zero for counts that they do not know. USE-04, USE-05
func (t *tally) add(u *Usage) {
	t.seen = true
	set := func(to *int64, n wire.Opt[wire.Number]) {
		switch c := wire.ParseTokenCount(wire.Raw(n.Value())); {
		case c > 0:
			*to = int64(c)
		case c < 0:
			t.invalid = true
		}
	}
	set(&t.input, u.InputTokens)
	set(&t.read, u.CacheReadInputTokens)
	set(&t.write, u.CacheCreationInputTokens)
	if raw, ok := u.Extra.Get("cache_creation"); ok && t.write > 0 {
		var c cacheCreation
		_ = wire.UnmarshalLenient(raw, &c) // what is not an object has no counts
		set(&t.hour, c.Hour)
	}
	set(&t.output, u.OutputTokens)
	set(&t.thinking, u.OutputTokensDetails.Value().ThinkingTokens)
	switch s := u.ServiceTier.Value(); s {
	case "":
	case "standard":
		t.tier = "default"
	default:
		t.tier = s
	}
	for _, m := range u.Extra.All() {
		if _, known := t.rest.Get(m.Name); !slices.Contains(countNames, m.Name) && (known || len(t.rest.All()) < maxKept) {
			t.rest.Set(m.Name, m.Value)
		}
	}
}

// countNames lists the members that appendUsage writes.
var countNames = []string{"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens", "output_tokens_details", "service_tier"}

// neutral returns counts that do not overlap, or nil if there were none or one of them is
// impossible.
func (t *tally) neutral() *llm.Usage {
	if !t.seen || t.invalid {
		return nil
	}
	u := &llm.Usage{Input: t.input, CacheRead: t.read, CacheWrite: t.write,
		Output: max(0, t.output-t.thinking), Reasoning: min(t.thinking, t.output)}
	*u.At(llm.CacheWrite1h) = min(t.hour, t.write)
	return u
}

// withCacheCreation adds the lifetimes of cache writes to the unknown members of usage, unless these have them. All
// cache writes are for five minutes if it adds nothing.
func withCacheCreation(members wire.Object, u *llm.Usage) wire.Object {
	if u == nil || *u.At(llm.CacheWrite1h) == 0 {
		return members
	}
	if _, ok := members.Get("cache_creation"); ok {
		return members
	}
	hour := *u.At(llm.CacheWrite1h)
	raw, err := wire.Marshal(&cacheCreation{Minutes: wire.Some(wire.Int(u.CacheWrite - hour)), Hour: wire.Some(wire.Int(hour))})
	if err != nil {
		return members
	}
	return append(wire.Object{{Name: "cache_creation", Value: raw}}, members...)
}

// appendUsage encodes token counts. Clients add them up without checking that
// they exist, so unknown counts are written as zero.
func appendUsage(b []byte, u *llm.Usage) []byte {
	if u == nil {
		u = &llm.Usage{}
	}
	b = strconv.AppendInt(append(b, `{"input_tokens":`...), u.Input, 10)
	b = strconv.AppendInt(append(b, `,"cache_creation_input_tokens":`...), u.CacheWrite, 10)
	b = strconv.AppendInt(append(b, `,"cache_read_input_tokens":`...), u.CacheRead, 10)
	b = strconv.AppendInt(append(b, `,"output_tokens":`...), u.TotalOutput(), 10)
	if u.Reasoning > 0 {
		b = strconv.AppendInt(append(b, `,"output_tokens_details":{"thinking_tokens":`...), u.Reasoning, 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

// Tap reads usage, stop reason and errors from a response that is relayed.
type Tap struct {
	event   streamEvent
	tally   tally
	summary protocol.Summary
}

// Finished reports whether every choice has its finish reason.
func (t *Tap) Finished() bool { return t.summary.Finish != "" && t.summary.Err == nil }

// Summary returns what the tap has read so far.
func (t *Tap) Summary() protocol.Summary {
	t.summary.Usage, t.summary.Tier = t.tally.neutral(), t.tally.tier
	return t.summary
}

// blockEvent begins the type of every event that holds nothing to measure. Quotes
// inside JSON strings are escaped, so text cannot look like it.
var blockEvent = []byte(`"content_block_`)

// Event reads one event.
func (t *Tap) Event(data []byte) protocol.Mark {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0, data[0] == ':', string(data) == "[DONE]":
		return protocol.Keepalive
	case bytes.Contains(data, blockEvent):
		t.summary.Content = true
		return protocol.Content
	}
	if err := json.Unmarshal(data, &t.event, wire.Lenient); err != nil {
		return t.fail(codec.InvalidResponse("the upstream sent an event that is not JSON", err))
	}
	e := &t.event
	switch {
	case isError(e.typ, e.err):
		return t.fail(decodeErrorBody(0, data))
	case e.typ == "message_stop":
		t.summary.Complete = true
		return protocol.Done
	case e.typ == "ping":
		return protocol.Keepalive
	case e.typ == "message_start":
		t.read(e.message)
	case e.typ == "message_delta":
		t.read(e.delta)
		var u Usage
		if len(e.usage) > 0 && wire.UnmarshalLenient(e.usage, &u) == nil {
			t.tally.add(&u)
		}
	}
	return protocol.Content
}

// read reads the members of a response, or of a part of one.
func (t *Tap) read(raw []byte) *Response {
	var w Response
	if len(raw) == 0 || wire.UnmarshalLenient(raw, &w) != nil {
		return nil
	}
	if s := w.ID.Value(); s != "" {
		t.summary.ID = s
	}
	if s := w.Model.Value(); s != "" {
		t.summary.Model = s
	}
	if s := w.StopReason.Value(); s != "" {
		t.summary.Finish = s
	}
	if u, ok := w.Usage.Get(); ok {
		t.tally.add(&u)
	}
	for _, block := range w.Content.Value().All() {
		t.summary.Content = t.summary.Content || codec.HasContent(*block, "type")
	}
	if container, ok := w.Extra.Get("container"); ok {
		t.summary.Keep(codec.CreatedIDs(container)...)
	}
	return &w
}

func (t *Tap) fail(e *llm.Error) protocol.Mark {
	t.summary.Err, t.summary.Complete = e, false
	return protocol.Failed
}

// Body reads a non-streaming response.
func (t *Tap) Body(body []byte) *llm.Error {
	w := t.read(body)
	switch {
	case w == nil:
		t.fail(codec.InvalidResponse("the upstream's response is not a complete JSON object", nil))
	case isError(w.Type.Value(), w.Error):
		t.fail(decodeErrorBody(0, body))
	default:
		t.summary.Complete = true
	}
	return t.summary.Err
}
