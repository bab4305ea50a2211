package anthropic

import (
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeCountRequest reads a client's request for the number of tokens of a prompt.
// It has the members of a request for an answer, less those that shape the answer.
func (c Codec) DecodeCountRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	return c.DecodeRequest(in)
}

// EncodeCountRequest writes a request for the number of tokens of a prompt.
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

// DecodeCount reads the number of tokens that an upstream has counted.
func (Codec) DecodeCount(body []byte) (int64, *llm.Error) {
	var w struct {
		InputTokens wire.Number `json:"input_tokens"`
	}
	if err := json.Unmarshal(body, &w, lenient); err != nil {
		return 0, badAnswer("the upstream's answer is not a count of tokens", err)
	}
	n, err := w.InputTokens.Int64()
	if err != nil {
		return 0, badAnswer("the upstream's answer is not a count of tokens", err)
	}
	return n, nil
}

// EncodeCount writes the answer to a request for a number of tokens.
func (Codec) EncodeCount(tokens int64) []byte {
	return append(strconv.AppendInt([]byte(`{"input_tokens":`), tokens, 10), '}')
}
