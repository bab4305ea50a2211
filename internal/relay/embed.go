package relay

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/gemini"
)

const embeddingsPath = "/v1/embeddings"

// embedders are the translations of embeddings: by the client's dialect, then by
// the upstream's.
var embedders = map[protocol.Name]map[protocol.Name]func(*exchange) *llm.Error{
	protocol.OpenAIChat: {protocol.Gemini: embedOverGemini},
	protocol.Gemini:     {protocol.OpenAIChat: embedOverOpenAI},
}

// embedOverGemini asks Gemini for vectors on behalf of a client of OpenAI's.
func embedOverGemini(x *exchange) *llm.Error {
	report, err := x.newReport()
	if err != nil {
		return err
	}
	ask := gemini.Embedding{Batch: true}
	if ask.Inputs, err = inputTexts(x.ask.raw("input")); err != nil {
		return err
	}
	if raw := x.ask.raw("dimensions"); raw != nil {
		n, bad := strconv.ParseInt(string(raw), 10, 64)
		if bad != nil || n < 1 {
			return wrongType("dimensions", "a whole number above 0")
		}
		ask.Dimensions = &n
	}
	format := string(x.ask.raw("encoding_format"))
	if format != "" && format != `"float"` && format != `"base64"` {
		return wrongType("encoding_format", "float or base64")
	}
	if x.ask.raw("user") != nil {
		report.Drop("user", "embeddings.user", "Gemini's embeddings have no user")
	}
	if err := report.Err(); err != nil {
		return x.refusal(report, err)
	}
	x.sendAs(&translation{out: gemini.EncodeEmbedding(&ask, x.upstreamTarget()), losses: report.Losses, rewrite: func(body []byte) ([]byte, *llm.Error) {
		v, err := gemini.DecodeVectors(body)
		if err != nil {
			return nil, err
		}
		x.translation.summary.Usage = v.Usage
		if len(v.Values) != len(ask.Inputs) {
			return nil, badVectors(nil)
		}
		return encodeEmbeddings(v, x.target.Model, format == `"base64"`)
	}})
	return nil
}

// inputTexts reads the member input: one text or a list of them.
func inputTexts(raw jsontext.Value) ([]string, *llm.Error) {
	if raw.Kind() == '"' {
		raw = slices.Concat(jsontext.Value("["), raw, jsontext.Value("]"))
	}
	var list []jsontext.Value
	var texts []string
	if json.Unmarshal(raw, &list, scanOptions) != nil || len(list) == 0 ||
		slices.ContainsFunc(list, func(v jsontext.Value) bool { return v.Kind() != '"' }) || json.Unmarshal(raw, &texts, scanOptions) != nil {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_type", Param: "input",
			Message: `"input" must be a text or a list of texts; token ids mean nothing to a model of another vendor`}
	}
	return texts, nil
}

func badVectors(cause error) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream's answer does not hold one vector for each input", Cause: cause}
}

// encodeEmbeddings writes vectors as OpenAI has them. USE-17: what was not counted
// is null and not zero.
func encodeEmbeddings(v *gemini.Vectors, model string, packed bool) ([]byte, *llm.Error) {
	b := []byte(`{"object":"list","data":[`)
	for i, values := range v.Values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = append(strconv.AppendInt(b, int64(i), 10), `,"embedding":`...)
		if !packed {
			b = append(append(b, values...), '}')
			continue
		}
		text, err := pack(values)
		if err != nil {
			return nil, badVectors(err)
		}
		b = append(appendQuote(b, text), '}')
	}
	b = appendQuote(append(b, `],"model":`...), model)
	if v.Usage == nil {
		return append(b, `,"usage":null}`...), nil
	}
	n := v.Usage.TotalInput()
	b = strconv.AppendInt(append(b, `,"usage":{"prompt_tokens":`...), n, 10)
	b = strconv.AppendInt(append(b, `,"total_tokens":`...), n, 10)
	return append(b, "}}"...), nil
}

// pack writes a list of numbers as OpenAI's base64 form: 32-bit floats, the low
// byte first.
func pack(values llm.Raw) (string, error) {
	var numbers []float64
	if err := json.Unmarshal([]byte(values), &numbers, scanOptions); err != nil {
		return "", err
	}
	b := make([]byte, 0, 4*len(numbers))
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(n)))
	}
	return base64.StdEncoding.EncodeToString(b), nil
}

// embedOverOpenAI asks OpenAI for vectors on behalf of a client of Gemini's.
func embedOverOpenAI(x *exchange) *llm.Error {
	report, err := x.newReport()
	if err != nil {
		return err
	}
	ask, err := gemini.DecodeEmbedding(x.endpoint.verb, x.ask.body)
	if err != nil {
		return err
	}
	if len(ask.Inputs) == 0 {
		return wrongType("requests", "a list of at least one")
	}
	if ask.Task != "" {
		report.Drop("task_type", "embeddings.task_type", "OpenAI's embeddings have no task type")
	}
	if ask.Title != "" {
		report.Drop("title", "embeddings.title", "OpenAI's embeddings have no title")
	}
	if err := report.Err(); err != nil {
		return x.refusal(report, err)
	}
	body, bad := json.Marshal(struct {
		Model      string   `json:"model"`
		Input      []string `json:"input"`
		Dimensions *int64   `json:"dimensions,omitzero"`
		Format     string   `json:"encoding_format"`
	}{x.target.Model, ask.Inputs, ask.Dimensions, "float"}, scanOptions)
	if bad != nil {
		return &llm.Error{Kind: llm.InvalidRequest, Message: "the texts cannot be sent on", Cause: bad}
	}
	x.sendAs(&translation{out: protocol.Outgoing{Body: body, Path: embeddingsPath}, losses: report.Losses, rewrite: func(body []byte) ([]byte, *llm.Error) {
		v, err := decodeEmbeddings(body, len(ask.Inputs))
		if err != nil {
			return nil, err
		}
		x.translation.summary.Usage = v.Usage
		return gemini.EncodeVectors(v, ask.Batch), nil
	}})
	return nil
}

// openAIVector is one vector of an answer.
type openAIVector struct {
	Index     int            `json:"index"`
	Embedding jsontext.Value `json:"embedding"`
}

// decodeEmbeddings reads OpenAI's vectors, in the order of their indexes.
func decodeEmbeddings(body []byte, want int) (*gemini.Vectors, *llm.Error) {
	var in struct {
		Data  []openAIVector `json:"data"`
		Usage *struct {
			Prompt int64 `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &in, scanOptions); err != nil || len(in.Data) != want {
		return nil, badVectors(err)
	}
	slices.SortStableFunc(in.Data, func(a, b openAIVector) int { return cmp.Compare(a.Index, b.Index) })
	v := &gemini.Vectors{}
	for _, d := range in.Data {
		if d.Embedding.Kind() != '[' {
			return nil, badVectors(nil)
		}
		v.Values = append(v.Values, llm.Raw(d.Embedding))
	}
	if in.Usage != nil {
		v.Usage = &llm.Usage{Input: max(0, in.Usage.Prompt)}
	}
	return v, nil
}
