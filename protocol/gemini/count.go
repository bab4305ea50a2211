package gemini

import (
	"net/http"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeCountRequest decodes a countTokens request: contents alone, or a complete
// generateContent request inside.
func DecodeCountRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var body CountRequest
	if err := unmarshalRequest(in.Body, &body); err != nil {
		return nil, badBody(err)
	}
	inner := body.GenerateContentRequest.Value()
	if !body.GenerateContentRequest.IsSet() {
		inner = Request{Contents: body.Contents}
	}
	req, err := readRequest(&inner)
	if err != nil {
		return nil, err
	}
	if a, found, bad := ParsePath(http.MethodPost, in.Path); found {
		if bad != nil {
			return nil, bad
		}
		req.Model = a.Model
	}
	return req, nil
}

// EncodeCountRequest encodes a countTokens request.
func EncodeCountRequest(req *llm.Request, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	out, err := Codec{}.EncodeRequest(req, target, report)
	if err != nil {
		return out, err
	}
	model := target.Model
	if model == "" {
		model = req.Model
	}
	// The request inside must repeat the model before its other members.
	body := append(quote("models/"+model), ',')
	if string(out.Body) == "{}" {
		body = body[:len(body)-1]
	}
	out.Body = append([]byte(`{"generateContentRequest":{"model":`), append(append(body, out.Body[1:]...), '}')...)
	out.Path = Path(target.Version, model, CountTokens)
	return out, nil
}

// DecodeCountResponse decodes the upstream's token count.
func DecodeCountResponse(body []byte) (int64, *llm.Error) {
	var o wire.Object
	if err := o.UnmarshalJSON(body); err != nil {
		return 0, badAnswer(err)
	}
	if raw, failed := o.Get("error"); failed {
		return 0, errorIn(raw)
	}
	raw, _ := o.Get("totalTokens")
	n, err := wire.Number(raw).Int64()
	if err != nil {
		return 0, badAnswer(err)
	}
	return n, nil
}

// EncodeCountResponse encodes a token count.
func EncodeCountResponse(tokens int64) []byte {
	return []byte(`{"totalTokens":` + string(wire.Int(tokens)) + `}`)
}
