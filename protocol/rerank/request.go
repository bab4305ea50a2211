// Package rerank decodes and encodes requests to rank documents by their relevance to a
// query. Each vendor has its own form: clients may send any of them, and each upstream gets
// its own.
package rerank

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Request is a request to rank documents. It has the members of all vendors.
type Request struct {
	Query           string
	Documents       []Document
	TopN            *int64
	ReturnDocuments bool
	MaxTokensPerDoc *int64
	MaxChunksPerDoc bool     // it was set; no known upstream has it
	RankFields      []string // the members of objects that count
	Unknown         []string // names of unknown members, sorted
}

// Document is a text or an object.
type Document struct {
	Text   string             // of a text
	Fields map[string]llm.Raw // of an object; nil for a text
	Raw    llm.Raw            // as the client wrote it
}

const (
	wantPositive = "a positive integer"
	wantBool     = "true or false"
	image        = "image"
	text         = "text"
)

// DecodeRequest decodes a client's request except for its model, which the caller has
// read.
func DecodeRequest(body []byte) (*Request, *llm.Error) {
	var m members
	if err := json.Unmarshal(body, &m); err != nil || m == nil {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Message: "the body is not a JSON object", Cause: err}
	}
	delete(m, "model")
	r := &Request{}
	var chunks *int64
	var list []jsontext.Value
	for _, take := range []func() *llm.Error{
		func() *llm.Error { return m.required("query", &r.Query, "a text") },
		func() *llm.Error { return m.required("documents", &list, "a list of texts or objects") },
		func() *llm.Error { return m.positive("top_n", &r.TopN) },
		func() *llm.Error { return m.take("return_documents", &r.ReturnDocuments, wantBool) },
		func() *llm.Error { return m.positive("max_tokens_per_doc", &r.MaxTokensPerDoc) },
		func() *llm.Error { return m.positive("max_chunks_per_doc", &chunks) },
		func() *llm.Error { return m.take("rank_fields", &r.RankFields, "a list of names") },
	} {
		if err := take(); err != nil {
			return nil, err
		}
	}
	r.MaxChunksPerDoc = chunks != nil
	r.Unknown = slices.Sorted(maps.Keys(m))
	return r, r.decodeDocuments(list)
}

func (r *Request) decodeDocuments(list []jsontext.Value) *llm.Error {
	if len(list) == 0 {
		return codec.WrongType("documents", "a list of at least one")
	}
	for i, raw := range list {
		d := Document{Raw: llm.Raw(raw)}
		var err error
		switch raw.Kind() {
		case '"':
			err = json.Unmarshal(raw, &d.Text)
		case '{':
			d.Fields, err = fieldsOf(raw)
		default:
			return codec.WrongType(codec.At("documents", i), "a text or an object")
		}
		if err != nil { // the body was read as a whole before
			return codec.WrongType(codec.At("documents", i), "a text or an object")
		}
		r.Documents = append(r.Documents, d)
	}
	return nil
}

func fieldsOf(raw jsontext.Value) (map[string]llm.Raw, error) {
	var values map[string]jsontext.Value
	err := json.Unmarshal(raw, &values)
	fields := make(map[string]llm.Raw, len(values))
	for name, v := range values {
		fields[name] = llm.Raw(v)
	}
	return fields, err
}

// members holds the members of a request that have not been decoded yet.
type members map[string]jsontext.Value

// take decodes a member and removes it. Null means absent.
func (m members) take(name string, v any, want string) *llm.Error {
	raw, ok := m[name]
	delete(m, name)
	if !ok || raw.Kind() == 'n' {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return codec.WrongType(name, want)
	}
	return nil
}

func (m members) required(name string, v any, want string) *llm.Error {
	if raw, ok := m[name]; !ok || raw.Kind() == 'n' {
		return codec.WrongType(name, want)
	}
	return m.take(name, v, want)
}

func (m members) positive(name string, v **int64) *llm.Error {
	if err := m.take(name, v, wantPositive); err != nil {
		return err
	}
	if *v != nil && **v < 1 {
		return codec.WrongType(name, wantPositive)
	}
	return nil
}
