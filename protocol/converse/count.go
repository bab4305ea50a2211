package converse

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// countTokens is the last segment of the path of CountTokens,
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html. Its input
// is a request of Converse, or one of InvokeModel, which belongs to another protocol.
const countTokens = "count-tokens"

// CountBody recognizes the requests of CountTokens whose input is a request of Converse.
func CountBody(d *codec.Dialect) *codec.OtherBody {
	return &codec.OtherBody{Dialect: d, Is: func(body *wire.Index) bool {
		if body.Raw("input").Kind() != '{' {
			return false
		}
		input, err := body.Object("input")
		return err == nil && input.Has("converse")
	}}
}

func counter() *codec.Counter {
	return &codec.Counter{DecodeRequest: decodeCountRequest, EncodeRequest: encodeCountRequest, DecodeResponse: decodeCount, EncodeResponse: encodeCount}
}

func decodeCountRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var w struct {
		Input struct {
			Converse wire.Raw `json:"converse"`
		} `json:"input"`
	}
	if err := json.Unmarshal(in.Body, &w, wire.Lenient); err != nil {
		return nil, blockcodec.InvalidJSON(err)
	}
	in.Body = w.Input.Converse
	return Codec{}.DecodeRequest(in)
}

// encodeCountRequest encodes a request with the members that are counted.
func encodeCountRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	e, err := encodeRequest(req, target, report)
	if err != nil {
		return protocol.Outgoing{}, err
	}
	e.out = Request{Messages: e.out.Messages, System: e.out.System, ToolConfig: e.out.ToolConfig, AdditionalFields: e.out.AdditionalFields}
	out, err := e.outgoing()
	if err != nil {
		return out, err
	}
	out.Body = append(append([]byte(`{"input":{"converse":`), out.Body...), "}}"...)
	out.Path, err = countPath(e.Target.Model)
	return out, err
}

// countPath returns the path of a model's token counts. CountTokens takes the ids of foundation
// models only, without the region of a profile.
func countPath(model string) (string, *llm.Error) {
	if i := strings.Index(model, "anthropic."); i > 0 {
		model = model[i:]
	}
	to, err := path(model, false)
	return strings.TrimSuffix(to, converse) + countTokens, err
}

func decodeCount(body []byte) (int64, *llm.Error) {
	var w struct {
		InputTokens wire.Number `json:"inputTokens"`
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

func encodeCount(tokens int64) []byte {
	return append(strconv.AppendInt([]byte(`{"inputTokens":`), tokens, 10), '}')
}
