package converse

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeResponse decodes a non-streaming response. It has neither an id nor a model.
func (Codec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	var w Response
	if err := wire.UnmarshalLenient(body, &w); err != nil {
		return nil, protocol.InvalidResponse("the upstream's response is not a complete JSON object", err)
	}
	message, ok := w.Output.Value().Message.Get()
	if !ok {
		if e := decodeErrorBody(0, "", body); e.Relayed {
			return nil, e
		}
		return nil, protocol.InvalidResponse("the upstream's response has no message", nil)
	}
	c := llm.Choice{}
	called := false
	for _, raw := range message.Content.Value().All() {
		b, err := decodeBlock(*raw)
		if err != nil {
			return nil, protocol.InvalidResponse("the upstream's response holds a content block that cannot be decoded", err)
		}
		if r, ok := b.(*llm.ToolResult); ok { // of a tool that the vendor runs
			b = serverResult(r.Blocks, *raw)
		}
		if call, ok := b.(*llm.ToolCall); ok {
			called = true
			if call.Args == "" {
				call.Args = "{}"
			}
		}
		c.Blocks = append(c.Blocks, b)
	}
	c.Stop = decodeStop(&w, called)
	keepAdditional(&c.Ext, &w)
	r := &llm.Response{Ext: kept.Ext(w.Extra), Choices: []llm.Choice{c}}
	var t tally
	t.add(&w)
	r.Usage, r.Tier = t.usage, t.tier
	kept.KeepRest(&r.Ext, "usage", t.rest)
	return r, nil
}

// serverResult returns the result of a tool that the vendor ran.
func serverResult(blocks []llm.Block, raw wire.Raw) *llm.ServerCall {
	call := &llm.ServerCall{Protocol: own, Type: "toolResult", Raw: llm.Raw(raw)}
	for _, b := range blocks {
		if t, ok := b.(*llm.Text); ok {
			call.Digest += t.Text
		}
	}
	return call
}

// stopKinds maps stop reasons to neutral kinds, and stopReasons is the reverse. Several
// kinds share a reason.
var (
	stopKinds = map[string]llm.StopKind{
		"end_turn":                      llm.EndTurn,
		"tool_use":                      llm.ToolUse,
		"max_tokens":                    llm.MaxTokens,
		"stop_sequence":                 llm.StopSequence,
		"guardrail_intervened":          llm.ContentFilter,
		"content_filtered":              llm.ContentFilter,
		"malformed_model_output":        llm.Malformed,
		"malformed_tool_use":            llm.Malformed,
		"model_context_window_exceeded": llm.ContextWindow,
	}
	stopReasons = map[llm.StopKind]string{
		llm.EndTurn:       "end_turn",
		llm.ToolUse:       "tool_use",
		llm.MaxTokens:     "max_tokens",
		llm.StopSequence:  "stop_sequence",
		llm.ContentFilter: "content_filtered",
		llm.PromptBlocked: "content_filtered",
		llm.Refused:       "content_filtered",
		llm.Malformed:     "malformed_tool_use",
		llm.ContextWindow: "model_context_window_exceeded",
	}
)

// decodeStop decodes the stop reason. A complete response without a reason is EndTurn.
func decodeStop(w *Response, called bool) llm.Stop {
	reason := w.StopReason.Value()
	s := llm.Stop{Raw: reason, Kind: llm.Other}
	if kind, ok := stopKinds[reason]; ok {
		s.Kind = kind
	}
	switch {
	case called && (reason == "" || s.Kind == llm.EndTurn):
		s.Kind = llm.ToolUse
	case reason == "", s.Kind == llm.ToolUse && !called:
		s.Kind = llm.EndTurn
	}
	if raw, ok := w.AdditionalFields.Value().Get("stop_sequence"); ok && s.Kind == llm.StopSequence {
		s.Matched = wire.Unquote(raw)
	}
	return s
}

// keepAdditional keeps the members in the model's own form that have no neutral one.
func keepAdditional(ext *llm.Ext, w *Response) {
	var rest wire.Object
	for _, m := range w.AdditionalFields.Value() {
		if m.Name != "stop_sequence" {
			rest = append(rest, m)
		}
	}
	kept.KeepRest(ext, "additionalModelResponseFields", wire.NewExtra(rest))
}

// tally holds what a response says beside its content.
type tally struct {
	usage *llm.Usage
	tier  string
	rest  wire.Extra // unknown counts
}

// add reads the counts and the service tier of a response, or of the last event of a stream.
func (t *tally) add(w *Response) {
	if s := w.ServiceTier.Value().Type.Value(); s != "" {
		t.tier = s
	}
	u, ok := w.Usage.Get()
	if !ok {
		return
	}
	valid := true
	count := func(n wire.Opt[wire.Number]) int64 {
		c := wire.ParseTokenCount(wire.Raw(n.Value()))
		valid = valid && c >= 0
		return max(int64(c), 0)
	}
	n := llm.Usage{Input: count(u.InputTokens), Output: count(u.OutputTokens), CacheRead: count(u.CacheReadInputTokens), CacheWrite: count(u.CacheWriteInputTokens)}
	if cached := n.CacheRead + n.CacheWrite; cached > 0 && n.Input >= cached && count(u.TotalTokens) == n.Input+n.Output {
		n.Input -= cached // the total shows that inputTokens includes them
	}
	t.rest = u.Extra
	if t.usage = &n; !valid {
		t.usage = nil
	}
}
