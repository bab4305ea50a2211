// Package rerank reads and writes requests to order documents by how well they
// fit a query. No two vendors agree on their form: clients write any of them, and
// upstreams get their own.
package rerank

import (
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Request asks for an order of documents. It holds what the vendors have between
// them.
type Request struct {
	Query           string
	Documents       []Document
	TopN            *int64
	ReturnDocuments bool
	MaxTokensPerDoc *int64
	MaxChunksPerDoc bool     // it was set; no upstream here has it
	RankFields      []string // the members of objects that count
	Unknown         []string // names of members that nobody here understands, in order
}

// Document is a text or an object.
type Document struct {
	Text   string             // of a text
	Fields map[string]llm.Raw // of an object; nil for a text
	Raw    llm.Raw            // as the client wrote it
}

const (
	wantPositive = "a whole number above 0"
	wantBool     = "true or false"
	image        = "image"
	text         = "text"
)

// DecodeRequest reads a client's request. The model is not a part of it: who is
// asked has been decided by then.
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
		return wrongType("documents", "a list of at least one")
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
			return wrongType(at(i), "a text or an object")
		}
		if err != nil { // the body was read as a whole before
			return wrongType(at(i), "a text or an object")
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

// members are those of a request that have not been read yet.
type members map[string]jsontext.Value

// take reads a member and removes it. One that is null is as good as absent.
func (m members) take(name string, v any, want string) *llm.Error {
	raw, ok := m[name]
	delete(m, name)
	if !ok || raw.Kind() == 'n' {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return wrongType(name, want)
	}
	return nil
}

func (m members) required(name string, v any, want string) *llm.Error {
	if raw, ok := m[name]; !ok || raw.Kind() == 'n' {
		return wrongType(name, want)
	}
	return m.take(name, v, want)
}

func (m members) positive(name string, v **int64) *llm.Error {
	if err := m.take(name, v, wantPositive); err != nil {
		return err
	}
	if *v != nil && **v < 1 {
		return wrongType(name, wantPositive)
	}
	return nil
}

func wrongType(name, want string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_type", Param: name, Message: `"` + name + `" must be ` + want}
}

func at(i int) string { return "documents[" + strconv.Itoa(i) + "]" }
