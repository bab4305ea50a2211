package openaichat

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

const embeddingsPath = "/v1/embeddings"

func embedder() *codec.Embedder {
	return &codec.Embedder{DecodeRequest: decodeEmbedRequest, EncodeRequest: encodeEmbedRequest,
		DecodeResponse: decodeEmbeddings, EncodeResponse: encodeEmbeddings}
}

// embedOptions are for reading an embeddings request, whose strings may hold lone surrogates.
var embedOptions = jsontext.AllowInvalidUTF8(true)

// decodeEmbedRequest reads a client's request for embeddings.
func decodeEmbedRequest(_ codec.Location, body []byte) (*llm.EmbedRequest, *llm.Error) {
	var in struct {
		Input      jsontext.Value `json:"input"`
		Dimensions jsontext.Value `json:"dimensions"`
		Format     jsontext.Value `json:"encoding_format"`
		User       jsontext.Value `json:"user"`
	}
	if err := json.Unmarshal(body, &in, embedOptions); err != nil {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Message: "the body is not a JSON object", Cause: err}
	}
	texts, err := inputTexts(in.Input)
	if err != nil {
		return nil, err
	}
	if len(texts) > codec.MaxEmbedTexts {
		return nil, codec.TooManyTexts("input")
	}
	req := &llm.EmbedRequest{Inputs: texts, Batch: in.Input.Kind() == '['}
	if isSet(in.Dimensions) {
		n, bad := strconv.ParseInt(string(in.Dimensions), 10, 64)
		if bad != nil || n < 1 {
			return nil, codec.WrongType("dimensions", "a positive integer")
		}
		req.Dimensions = &n
	}
	if isSet(in.Format) {
		format := string(in.Format)
		if format != `"float"` && format != `"base64"` {
			return nil, codec.WrongType("encoding_format", "float or base64")
		}
		req.Base64 = format == `"base64"`
	}
	if isSet(in.User) {
		req.User = string(in.User)
		_ = json.Unmarshal(in.User, &req.User, embedOptions) // what is not a string stays JSON text
	}
	return req, nil
}

func isSet(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// inputTexts reads the member input: one text or a list of them.
func inputTexts(raw jsontext.Value) ([]string, *llm.Error) {
	if raw.Kind() == '"' {
		raw = slices.Concat(jsontext.Value("["), raw, jsontext.Value("]"))
	}
	var list []jsontext.Value
	var texts []string
	if json.Unmarshal(raw, &list, embedOptions) != nil || len(list) == 0 ||
		slices.ContainsFunc(list, func(v jsontext.Value) bool { return v.Kind() != '"' }) || json.Unmarshal(raw, &texts, embedOptions) != nil {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_type", Param: "input",
			Message: `"input" must be a text or a list of texts; token ids mean nothing to a model of another vendor`}
	}
	return texts, nil
}

// encodeEmbedRequest writes a request for embeddings.
func encodeEmbedRequest(req *llm.EmbedRequest, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	if req.Task != "" {
		report.Drop("task_type", "embeddings.task_type", "OpenAI's embeddings have no task type")
	}
	if req.Title != "" {
		report.Drop("title", "embeddings.title", "OpenAI's embeddings have no title")
	}
	if err := report.Err(); err != nil {
		return protocol.Outgoing{}, err
	}
	body, err := json.Marshal(struct {
		Model      string   `json:"model"`
		Input      []string `json:"input"`
		Dimensions *int64   `json:"dimensions,omitzero"`
		Format     string   `json:"encoding_format"`
		User       string   `json:"user,omitzero"`
	}{target.Model, req.Inputs, req.Dimensions, "float", req.User}, embedOptions)
	if err != nil {
		return protocol.Outgoing{}, &llm.Error{Kind: llm.InvalidRequest, Message: "the texts cannot be sent on", Cause: err}
	}
	return protocol.Outgoing{Body: body, Path: embeddingsPath}, nil
}

// vector is one vector of a response.
type vector struct {
	Index     int            `json:"index"`
	Embedding jsontext.Value `json:"embedding"`
}

// decodeEmbeddings reads vectors, in the order of their indexes.
func decodeEmbeddings(body []byte) (*llm.Embeddings, *llm.Error) {
	var in struct {
		Model jsontext.Value `json:"model"`
		Data  []vector       `json:"data"`
		Usage *struct {
			Prompt int64 `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &in, embedOptions); err != nil {
		return nil, badEmbeddings(err)
	}
	slices.SortStableFunc(in.Data, func(a, b vector) int { return cmp.Compare(a.Index, b.Index) })
	out := &llm.Embeddings{Model: wire.Scalar(in.Model)}
	for _, d := range in.Data {
		if d.Embedding.Kind() != '[' {
			return nil, badEmbeddings(nil)
		}
		out.Vectors = append(out.Vectors, llm.Raw(d.Embedding))
	}
	if in.Usage != nil && in.Usage.Prompt >= 0 {
		out.Usage = &llm.Usage{Input: in.Usage.Prompt}
	}
	return out, nil
}

func badEmbeddings(cause error) *llm.Error {
	return codec.InvalidResponse("the upstream's response holds no vectors", cause)
}

// encodeEmbeddings writes vectors. Usage that was not counted is null and not zero. USE-17
func encodeEmbeddings(e *llm.Embeddings, req *llm.EmbedRequest) ([]byte, *llm.Error) {
	b := []byte(`{"object":"list","data":[`)
	for i, values := range e.Vectors {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = append(strconv.AppendInt(b, int64(i), 10), `,"embedding":`...)
		if !req.Base64 {
			b = append(append(b, values...), '}')
			continue
		}
		text, err := packFloats(values)
		if err != nil {
			return nil, badEmbeddings(err)
		}
		b = append(append(append(b, '"'), text...), `"}`...)
	}
	b = wire.AppendQuote(append(b, `],"model":`...), e.Model)
	if e.Usage == nil {
		return append(b, `,"usage":null}`...), nil
	}
	n := e.Usage.TotalInput()
	b = strconv.AppendInt(append(b, `,"usage":{"prompt_tokens":`...), n, 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), n, 10)
	return append(b, "}}"...), nil
}

// packFloats writes a list of numbers in base64: 32-bit floats, the low byte first.
func packFloats(values llm.Raw) (string, error) {
	var numbers []float64
	if err := json.Unmarshal([]byte(values), &numbers); err != nil {
		return "", err
	}
	b := make([]byte, 0, 4*len(numbers))
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(n)))
	}
	return base64.StdEncoding.EncodeToString(b), nil
}
