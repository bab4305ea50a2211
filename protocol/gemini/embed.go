package gemini

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// EmbedRequest is the body of embedContent, and an item of batchEmbedContents.
type EmbedRequest struct {
	Model                wire.Opt[string]      `json:"model"`
	Content              wire.Opt[Content]     `json:"content"`
	TaskType             wire.Opt[string]      `json:"taskType"`
	Title                wire.Opt[string]      `json:"title"`
	OutputDimensionality wire.Opt[wire.Number] `json:"outputDimensionality"`
	Extra                wire.Extra            `json:"-"`
}

// BatchEmbedRequest is the body of batchEmbedContents.
type BatchEmbedRequest struct {
	Requests wire.Opt[wire.List[EmbedRequest]] `json:"requests"`
	Extra    wire.Extra                        `json:"-"`
}

// EmbedResponse is the answer to either.
type EmbedResponse struct {
	Embedding     wire.Opt[Vector]            `json:"embedding"`
	Embeddings    wire.Opt[wire.List[Vector]] `json:"embeddings"`
	UsageMetadata wire.Opt[Usage]             `json:"usageMetadata"`
	Error         wire.Raw                    `json:"error"`
	Extra         wire.Extra                  `json:"-"`
}

// Vector is one list of numbers.
type Vector struct {
	Values wire.Raw   `json:"values"`
	Extra  wire.Extra `json:"-"`
}

func embedder() *codec.Embedder {
	return &codec.Embedder{DecodeRequest: decodeEmbedRequest, EncodeRequest: encodeEmbedRequest,
		DecodeResponse: decodeEmbeddings, EncodeResponse: encodeEmbeddings}
}

// decodeEmbedRequest reads a client's request for embeddings. The verb of its path tells
// the two forms apart.
func decodeEmbedRequest(loc codec.Location, body []byte) (*llm.EmbedRequest, *llm.Error) {
	e := &llm.EmbedRequest{Batch: loc.Verb == BatchEmbed}
	var items BatchEmbedRequest
	if e.Batch {
		if err := unmarshalRequest(body, &items); err != nil {
			return nil, badBody(err)
		}
	} else {
		var one EmbedRequest
		if err := unmarshalRequest(body, &one); err != nil {
			return nil, badBody(err)
		}
		items.Requests = wire.Some(wire.ListOf(one))
	}
	if list := items.Requests.Value(); list.Len() > codec.MaxEmbedTexts {
		return nil, codec.TooManyTexts("requests")
	}
	for i, item := range items.Requests.Value().All() {
		text := ""
		content := item.Content.Value()
		parts := content.Parts.Value()
		for _, p := range parts.All() {
			if !p.Text.IsSet() {
				return nil, invalid(codec.At("requests", i)+".content", "only text can be embedded here")
			}
			text += textOf(p.Text.Value())
		}
		e.Inputs = append(e.Inputs, text)
		e.Task, e.Title = item.TaskType.Value(), item.Title.Value()
		if n, ok := item.OutputDimensionality.Get(); ok {
			d, err := n.Int64()
			if err != nil {
				return nil, invalid("outputDimensionality", "write an integer")
			}
			e.Dimensions = &d
		}
	}
	if len(e.Inputs) == 0 {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_type", Param: "requests", Message: `"requests" must be a list of at least one`}
	}
	return e, nil
}

// maxRepeated limits the bytes of what is sent with each text.
const maxRepeated = 512 << 10

// encodeEmbedRequest writes a request for embeddings: always the form for several texts,
// which every embedding model has.
func encodeEmbedRequest(e *llm.EmbedRequest, target protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	if e.User != "" {
		report.Drop("user", "embeddings.user", "Gemini's embeddings have no user")
	}
	if (len(e.Title)+len(e.Task))*len(e.Inputs) > maxRepeated {
		return protocol.Outgoing{}, invalid("title", "shorten it: it is sent with each text")
	}
	if err := report.Err(); err != nil {
		return protocol.Outgoing{}, err
	}
	model := "models/" + strings.TrimPrefix(target.Model, "models/")
	var requests wire.List[EmbedRequest]
	for _, text := range e.Inputs {
		r := EmbedRequest{
			Model:   wire.Some(model),
			Content: wire.Some(Content{Parts: listOf(wire.ListOf(Part{Text: wire.Some(wire.NewText(text))}))}),
		}
		if e.Task != "" {
			r.TaskType = wire.Some(e.Task)
		}
		if e.Title != "" {
			r.Title = wire.Some(e.Title)
		}
		if e.Dimensions != nil {
			r.OutputDimensionality = wire.Some(wire.Int(*e.Dimensions))
		}
		requests.Append(&r)
	}
	body, _ := wire.Marshal(&BatchEmbedRequest{Requests: wire.Some(requests)}) // every value can be written
	return protocol.Outgoing{Body: body, Path: Path(target.Version, target.Model, BatchEmbed)}, nil
}

// decodeEmbeddings reads an upstream's vectors.
func decodeEmbeddings(body []byte) (*llm.Embeddings, *llm.Error) {
	var r EmbedResponse
	if err := wire.UnmarshalLenient(body, &r); err != nil {
		return nil, badAnswer(err)
	}
	if len(r.Error) > 0 && r.Error.Kind() != 'n' {
		return nil, errorIn(r.Error)
	}
	list := r.Embeddings.Value()
	if one := r.Embedding.Ptr(); one != nil {
		list = wire.ListOf(*one)
	}
	v := &llm.Embeddings{}
	for _, item := range list.All() {
		if item.Values.Kind() != '[' {
			return nil, badAnswer(nil)
		}
		v.Vectors = append(v.Vectors, llm.Raw(item.Values))
	}
	if len(v.Vectors) == 0 {
		return nil, badAnswer(nil)
	}
	if u := r.UsageMetadata.Ptr(); u != nil {
		if n := wire.ParseTokenCount(wire.Raw(u.PromptTokenCount.Value())); n >= 0 {
			v.Usage = &llm.Usage{Input: int64(n)}
		}
	}
	return v, nil
}

// encodeEmbeddings writes vectors for a client, in the form of its request.
func encodeEmbeddings(v *llm.Embeddings, req *llm.EmbedRequest) ([]byte, *llm.Error) {
	b := []byte(`{"embeddings":[`)
	if !req.Batch {
		b = []byte(`{"embedding":`)
	}
	for i, values := range v.Vectors {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"values":`...), values...), '}')
	}
	if req.Batch {
		b = append(b, ']')
	}
	if v.Usage != nil {
		b = append(b, `,"usageMetadata":{"promptTokenCount":`+string(wire.Int(v.Usage.TotalInput()))+`}`...)
	}
	return append(b, '}'), nil
}
