package converse

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeResponse decodes a non-streaming response. It has neither an id nor a model.
func (Codec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	var w Response
	if err := wire.UnmarshalLenient(body, &w); err != nil {
		return nil, codec.InvalidResponse("the upstream's response is not a complete JSON object", err)
	}
	message, ok := w.Output.Value().Message.Get()
	if !ok {
		if e := decodeErrorBody(0, "", body); e.Relayed {
			return nil, e
		}
		return nil, codec.InvalidResponse("the upstream's response has no message", nil)
	}
	blocks, called, err := blockcodec.DecodeContent(message.Content.Value(), func(raw wire.Raw) (llm.Block, error) {
		b, err := decodeBlock(raw)
		if r, ok := b.(*llm.ToolResult); ok { // of a tool that the vendor runs
			b = serverResult(r.Blocks, raw)
		}
		return b, err
	})
	if err != nil {
		return nil, err
	}
	c := llm.Choice{Blocks: blocks}
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
	if raw, ok := u.Extra.Get("cacheDetails"); ok && n.CacheWrite > 0 {
		var list wire.List[cacheDetail]
		_ = wire.UnmarshalLenient(raw, &list) // what is not a list has no counts
		for _, d := range list.All() {
			if d.TTL.Value() == hour {
				*n.At(llm.CacheWrite1h) = min(count(d.InputTokens), n.CacheWrite)
			}
		}
	}
	t.rest = u.Extra
	if t.usage = &n; !valid {
		t.usage = nil
	}
}
