package rerank

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// StatusInvalidToken is the status with which Cohere rejects a credential, besides 401.
const StatusInvalidToken = 498

// EncodeCohere encodes a request for version 2 of Cohere's API.
func EncodeCohere(r *Request, model string, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	r.reportCommon(report)
	docs, err := r.texts(report, func(i int, _ llm.Raw) jsontext.Value {
		// Without the document the indexes would shift, so no mode leaves it out.
		report.Losses = append(report.Losses, llm.Loss{Path: codec.At("documents", i), Verdict: llm.Rejected, Code: "rerank.image", Note: "the upstream orders texts only; send a text"})
		return nil
	})
	if err != nil {
		return protocol.Outgoing{}, err
	}
	return outgoing("/v2/rerank", struct {
		Model     string           `json:"model"`
		Query     string           `json:"query"`
		Documents []jsontext.Value `json:"documents"`
		TopN      *int64           `json:"top_n,omitzero"`
		MaxTokens *int64           `json:"max_tokens_per_doc,omitzero"`
	}{model, r.Query, docs, r.TopN, r.MaxTokensPerDoc}, report)
}

// EncodeJina encodes a request for Jina's API.
func EncodeJina(r *Request, model string, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	r.reportCommon(report)
	if r.MaxTokensPerDoc != nil {
		report.Drop("max_tokens_per_doc", "rerank.max_tokens_per_doc", "the upstream has no limit on a document's length")
	}
	docs, err := r.texts(report, func(_ int, picture llm.Raw) jsontext.Value {
		return slices.Concat(jsontext.Value(`{"image":`), jsontext.Value(picture), jsontext.Value("}"))
	})
	if err != nil {
		return protocol.Outgoing{}, err
	}
	return outgoing("/v1/rerank", struct {
		Model     string           `json:"model"`
		Query     string           `json:"query"`
		Documents []jsontext.Value `json:"documents"`
		TopN      *int64           `json:"top_n,omitzero"`
		Return    bool             `json:"return_documents"` // true where it is absent; the client gets its own
	}{model, r.Query, docs, r.TopN, false}, report)
}

// outgoing returns the request, or the error of a loss that rejects it.
func outgoing(path string, body any, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	if err := report.Err(); err != nil {
		return protocol.Outgoing{}, err
	}
	b, err := json.Marshal(body)
	if err != nil {
		return protocol.Outgoing{}, &llm.Error{Kind: llm.InvalidRequest, Message: "the documents cannot be sent on", Cause: err}
	}
	return protocol.Outgoing{Body: b, Path: path}, nil
}

// reportCommon reports members that no upstream has.
func (r *Request) reportCommon(report *llm.Report) {
	if r.MaxChunksPerDoc {
		report.Drop("max_chunks_per_doc", "rerank.max_chunks_per_doc", "the upstream does not count chunks")
	}
	for _, name := range r.Unknown {
		report.Drop(name, "rerank.unknown_field", "the upstream is not known to have it")
	}
}

// texts returns the documents as texts. It calls onImage for each image.
func (r *Request) texts(report *llm.Report, onImage func(i int, picture llm.Raw) jsontext.Value) ([]jsontext.Value, *llm.Error) {
	docs := make([]jsontext.Value, len(r.Documents))
	joined, cut := false, false
	for i, d := range r.Documents {
		plain, picture := d.Fields[text], d.Fields[image]
		var err *llm.Error
		switch {
		case d.Fields == nil:
			docs[i] = jsontext.Value(d.Raw)
		case present(picture) && (len(r.RankFields) == 0 || slices.Contains(r.RankFields, image)):
			docs[i] = onImage(i, picture)
			cut = cut || len(d.Fields) > 1
		case r.joins():
			docs[i], err = d.join(i, r.RankFields)
			joined = true
		case jsontext.Value(plain).Kind() == '"':
			docs[i] = jsontext.Value(plain)
			// rank_fields says that the others do not count.
			cut = cut || len(d.Fields) > 1 && len(r.RankFields) == 0
		default:
			err = codec.WrongType(codec.At("documents", i), `a text or an object with a "text"; name other members in "rank_fields"`)
		}
		if err != nil {
			return nil, err
		}
	}
	if joined {
		report.Approximate("rank_fields", "rank_fields.joined", "the upstream takes texts; the fields were written as lines")
	}
	if cut {
		report.Drop("documents", "rerank.fields", "the upstream takes texts; other members of documents are not sent")
	}
	return docs, nil
}

// joins reports whether the fields of objects are joined. They are not if only the text
// is ranked.
func (r *Request) joins() bool {
	return len(r.RankFields) > 1 || len(r.RankFields) == 1 && r.RankFields[0] != text
}

// join returns the requested fields of a document as lines, in the order of the
// request.
func (d Document) join(i int, fields []string) (jsontext.Value, *llm.Error) {
	var lines []string
	for _, name := range fields {
		if v := d.Fields[name]; present(v) {
			lines = append(lines, name+": "+plainText(v))
		}
	}
	if len(lines) == 0 {
		return nil, codec.WrongType(codec.At("documents", i), `an object with one of the "rank_fields"`)
	}
	return wire.AppendQuote(nil, strings.Join(lines, "\n")), nil
}

// plainText returns a string, or the JSON of any other value.
func plainText(v llm.Raw) string {
	var s string
	if json.Unmarshal([]byte(v), &s) == nil {
		return s
	}
	return string(v)
}

func present(v llm.Raw) bool { return v != "" && v != "null" }
