package gemini

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Embedding asks for the vectors of texts.
type Embedding struct {
	Inputs     []string
	Dimensions *int64
	Task       string // such as RETRIEVAL_QUERY
	Title      string
	Batch      bool // the client asked for a list, perhaps of one
}

// Vectors are what an embedding model gives: one list of numbers for each text,
// as the model wrote them.
type Vectors struct {
	Values []llm.Raw
	Usage  *llm.Usage // nil where nothing was counted
}

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
	Requests wire.Opt[[]EmbedRequest] `json:"requests"`
	Extra    wire.Extra               `json:"-"`
}

// EmbedResponse is the answer to either.
type EmbedResponse struct {
	Embedding     wire.Opt[Vector]   `json:"embedding"`
	Embeddings    wire.Opt[[]Vector] `json:"embeddings"`
	UsageMetadata wire.Opt[Usage]    `json:"usageMetadata"`
	Error         wire.Raw           `json:"error"`
	Extra         wire.Extra         `json:"-"`
}

// Vector is one list of numbers.
type Vector struct {
	Values wire.Raw   `json:"values"`
	Extra  wire.Extra `json:"-"`
}

var (
	embedShape         = wire.Describe[EmbedRequest]()
	batchEmbedShape    = wire.Describe[BatchEmbedRequest]()
	embedResponseShape = wire.Describe[EmbedResponse]()
)

// DecodeEmbedding reads a client's request for vectors. The verb, which is in the
// path, tells the two forms apart.
func DecodeEmbedding(verb string, body []byte) (*Embedding, *llm.Error) {
	e := &Embedding{Batch: verb == BatchEmbed}
	var items []EmbedRequest
	if e.Batch {
		var b BatchEmbedRequest
		if err := batchEmbedShape.Unmarshal(batchEmbedSpelling().camel(body), &b); err != nil {
			return nil, badBody(err)
		}
		items = b.Requests.Value()
	} else {
		var one EmbedRequest
		if err := embedShape.Unmarshal(embedSpelling().camel(body), &one); err != nil {
			return nil, badBody(err)
		}
		items = []EmbedRequest{one}
	}
	for i, item := range items {
		text := ""
		content := item.Content.Value()
		parts := content.Parts.Value()
		for _, p := range parts.Items() {
			if !p.Text.IsSet() {
				return nil, invalid(at("requests", i)+".content", "only text can be embedded here")
			}
			text += textOf(p.Text.Value())
		}
		e.Inputs = append(e.Inputs, text)
		e.Task, e.Title = item.TaskType.Value(), item.Title.Value()
		if n, ok := item.OutputDimensionality.Get(); ok {
			d, err := n.Int64()
			if err != nil {
				return nil, invalid("outputDimensionality", "write a whole number")
			}
			e.Dimensions = &d
		}
	}
	return e, nil
}

// EncodeEmbedding writes a request for an upstream: always the form for several
// texts, which every embedding model has.
func EncodeEmbedding(e *Embedding, target protocol.Target) protocol.Outgoing {
	model := "models/" + strings.TrimPrefix(target.Model, "models/")
	requests := make([]EmbedRequest, 0, len(e.Inputs))
	for _, text := range e.Inputs {
		r := EmbedRequest{
			Model:   wire.Some(model),
			Content: wire.Some(Content{Parts: listOf([]Part{{Text: wire.Some(wire.NewText(text))}})}),
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
		requests = append(requests, r)
	}
	body, _ := batchEmbedShape.Marshal(&BatchEmbedRequest{Requests: wire.Some(requests)}) // every value can be written
	return protocol.Outgoing{Body: body, Path: Path(target.Version, target.Model, BatchEmbed)}
}

// DecodeVectors reads an upstream's vectors.
func DecodeVectors(body []byte) (*Vectors, *llm.Error) {
	var r EmbedResponse
	if err := embedResponseShape.UnmarshalLenient(body, &r); err != nil {
		return nil, badAnswer(err)
	}
	if len(r.Error) > 0 && r.Error.Kind() != 'n' {
		return nil, errorIn(r.Error)
	}
	list := r.Embeddings.Value()
	if one := r.Embedding.Ptr(); one != nil {
		list = []Vector{*one}
	}
	v := &Vectors{}
	for _, item := range list {
		if item.Values.Kind() != '[' {
			return nil, badAnswer(nil)
		}
		v.Values = append(v.Values, llm.Raw(item.Values))
	}
	if len(v.Values) == 0 {
		return nil, badAnswer(nil)
	}
	if u := r.UsageMetadata.Ptr(); u != nil {
		n, _ := u.PromptTokenCount.Value().Int64()
		v.Usage = &llm.Usage{Input: max(0, n)}
	}
	return v, nil
}

// EncodeVectors writes vectors for a client, in the form that it asked in.
func EncodeVectors(v *Vectors, batch bool) []byte {
	b := []byte(`{"embeddings":[`)
	if !batch {
		b = []byte(`{"embedding":`)
	}
	for i, values := range v.Values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"values":`...), values...), '}')
	}
	if batch {
		b = append(b, ']')
	}
	if v.Usage != nil {
		b = append(b, `,"usageMetadata":{"promptTokenCount":`+string(wire.Int(v.Usage.TotalInput()))+`}`...)
	}
	return append(b, '}')
}
