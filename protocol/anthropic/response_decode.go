package anthropic

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeResponse decodes a non-streaming response.
func (Codec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	var w Response
	if err := wire.UnmarshalLenient(body, &w); err != nil {
		return nil, codec.InvalidResponse("the upstream's response is not a complete JSON object", err)
	}
	if isError(w.Type.Value(), w.Error) { // ERR-05
		return nil, decodeErrorBody(0, body)
	}
	if !w.Content.IsSet() {
		return nil, codec.InvalidResponse("the upstream's response has no content", nil)
	}
	blocks, called, err := blockcodec.DecodeContent(w.Content.Value(), decodeBlock)
	if err != nil {
		return nil, err
	}
	c := llm.Choice{Blocks: blocks}
	details := w.StopDetails.Value()
	c.Stop = decodeStop(w.StopReason.Value(), w.StopSequence.Value().String(), details, called)
	kept.KeepRest(&c.Ext, "stop_details", details.Extra)

	r := &llm.Response{ID: w.ID.Value(), Model: w.Model.Value(), Ext: kept.Ext(w.Extra), Choices: []llm.Choice{c}}
	if u, ok := w.Usage.Get(); ok {
		var t tally
		t.add(&u)
		r.Usage, r.Tier = t.neutral(), t.tier
		kept.KeepRest(&r.Ext, "usage", t.rest)
	}
	return r, nil
}
