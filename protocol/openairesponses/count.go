package openairesponses

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// countPath is the path of token counts. Its requests have the members of a request for a response that are counted.
const countPath = "/v1/responses/input_tokens"

// countMembers are the members of a token count request.
var countMembers = []string{
	"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "truncation", "previous_response_id", "conversation",
}

func counter() *codec.Counter {
	return &codec.Counter{DecodeRequest: Codec{}.DecodeRequest, EncodeRequest: encodeCountRequest, DecodeResponse: decodeCount, EncodeResponse: encodeCount}
}

// encodeCountRequest encodes a request with the members that are counted.
func encodeCountRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	out, err := Codec{}.EncodeRequest(req, target, report)
	if err != nil {
		return out, err
	}
	var all wire.Object
	if cause := all.UnmarshalJSON(out.Body); cause != nil {
		return out, codec.InvalidResponse("the request cannot be encoded as a token count", cause)
	}
	counted := slices.DeleteFunc(all, func(m wire.Member) bool { return !slices.Contains(countMembers, m.Name) })
	out.Path = countPath
	out.Body, _ = counted.MarshalJSON() // cannot fail: it was decoded from JSON
	return out, nil
}

func decodeCount(body []byte) (int64, *llm.Error) {
	var w struct {
		InputTokens wire.Number `json:"input_tokens"`
	}
	cause := json.Unmarshal(body, &w, wire.Lenient)
	if n, err := w.InputTokens.Int64(); cause == nil && err == nil {
		return n, nil
	}
	return 0, codec.InvalidResponse("the upstream's response is not a token count", cause)
}

func encodeCount(tokens int64) []byte {
	return append(strconv.AppendInt([]byte(`{"object":"response.input_tokens","input_tokens":`), tokens, 10), '}')
}
