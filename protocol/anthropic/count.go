package anthropic

import (
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeCountRequest decodes a token count request. It has the members of a
// messages request, without those that control the output.
func (c Codec) DecodeCountRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	return c.DecodeRequest(in)
}

// EncodeCountRequest encodes a token count request.
func (Codec) EncodeCountRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	e, err := encodeRequest(req, target, report)
	if err != nil {
		return protocol.Outgoing{}, err
	}
	w := &e.out
	w.MaxTokens, w.Stream, w.StopSequences = wire.Opt[wire.Number]{}, wire.Opt[bool]{}, wire.Opt[[]wire.Text]{}
	w.Temperature, w.TopP, w.TopK = wire.Opt[wire.Number]{}, wire.Opt[wire.Number]{}, wire.Opt[wire.Number]{}
	w.Metadata, w.ServiceTier = wire.Opt[Metadata]{}, wire.Opt[string]{}
	return e.outgoing(messagesPath + "/count_tokens")
}

// DecodeCount decodes the upstream's token count.
func (Codec) DecodeCount(body []byte) (int64, *llm.Error) {
	var w struct {
		InputTokens wire.Number `json:"input_tokens"`
	}
	if err := json.Unmarshal(body, &w, wire.Lenient); err != nil {
		return 0, codec.InvalidResponse("the upstream's response is not a token count", err)
	}
	n, err := w.InputTokens.Int64()
	if err != nil {
		return 0, codec.InvalidResponse("the upstream's response is not a token count", err)
	}
	return n, nil
}

// EncodeCount encodes the response to a token count request.
func (Codec) EncodeCount(tokens int64) []byte {
	return append(strconv.AppendInt([]byte(`{"input_tokens":`), tokens, 10), '}')
}
