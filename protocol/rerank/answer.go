package rerank

import (
	"cmp"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Answer is an order of documents: the best first.
type Answer struct {
	ID          string // empty where the upstream gave none
	Model       string // likewise
	Results     []Result
	TotalTokens *int64  // nil where nothing was counted
	BilledUnits llm.Raw // as the upstream wrote them; may be empty
}

// Result is one document's place. A score says nothing beside another model's.
type Result struct {
	Index int        // among the request's documents
	Score llm.Number // as the upstream wrote it
}

// Usage is what was counted, or nil.
func (a *Answer) Usage() *llm.Usage {
	if a.TotalTokens == nil {
		return nil
	}
	return &llm.Usage{Input: *a.TotalTokens}
}

// wireAnswer is what Cohere and Jina answer between them.
type wireAnswer struct {
	ID      string       `json:"id"`
	Model   string       `json:"model"`
	Results []wireResult `json:"results"`
	Usage   struct {
		Total *float64 `json:"total_tokens"`
	} `json:"usage"`
	Meta struct {
		Billed jsontext.Value `json:"billed_units"`
		Tokens struct {
			Input  *float64 `json:"input_tokens"`
			Output *float64 `json:"output_tokens"`
		} `json:"tokens"`
	} `json:"meta"`
}

type wireResult struct {
	Index *int           `json:"index"`
	Score jsontext.Value `json:"relevance_score"`
}

// DecodeAnswer reads the answer of either vendor to a request.
func DecodeAnswer(body []byte, r *Request) (*Answer, *llm.Error) {
	var in wireAnswer
	if err := json.Unmarshal(body, &in, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, badAnswer(err)
	}
	if in.Results == nil {
		return nil, badAnswer(nil)
	}
	a := &Answer{ID: in.ID, Model: in.Model, TotalTokens: in.total()}
	if in.Meta.Billed.Kind() == '{' {
		a.BilledUnits = llm.Raw(in.Meta.Billed)
	}
	return a, a.order(in.Results, len(r.Documents))
}

// order takes the results over, the best first.
func (a *Answer) order(results []wireResult, documents int) *llm.Error {
	score := make([]float64, documents)
	seen := make([]bool, documents)
	for _, w := range results {
		if w.Index == nil || *w.Index < 0 || *w.Index >= documents || seen[*w.Index] || w.Score.Kind() != '0' {
			return badAnswer(nil)
		}
		if err := json.Unmarshal(w.Score, &score[*w.Index]); err != nil {
			return badAnswer(err)
		}
		seen[*w.Index] = true
		a.Results = append(a.Results, Result{Index: *w.Index, Score: llm.Number(w.Score)})
	}
	slices.SortStableFunc(a.Results, func(x, y Result) int { return cmp.Compare(score[y.Index], score[x.Index]) })
	return nil
}

// total is the number of tokens, which Cohere gives in two parts.
func (w *wireAnswer) total() *int64 {
	sum, counted := 0.0, false
	parts := []*float64{w.Usage.Total}
	if w.Usage.Total == nil {
		parts = []*float64{w.Meta.Tokens.Input, w.Meta.Tokens.Output}
	}
	for _, n := range parts {
		if n != nil {
			sum, counted = sum+*n, true
		}
	}
	if !counted || sum < 0 || sum > math.MaxInt32 { // what cannot be a count is none
		return nil
	}
	n := int64(sum)
	return &n
}

func badAnswer(cause error) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream's answer does not hold a score for documents of the request", Cause: cause}
}

type clientResult struct {
	Index    int            `json:"index"`
	Score    jsontext.Value `json:"relevance_score"`
	Document jsontext.Value `json:"document,omitzero"`
}

// EncodeAnswer writes an answer for the client. Documents come from the request,
// whatever the upstream can give back; a text becomes an object, as both vendors
// have it.
func EncodeAnswer(a *Answer, r *Request) []byte {
	var out struct {
		ID      string         `json:"id"`
		Model   string         `json:"model"`
		Results []clientResult `json:"results"`
		Usage   struct {
			Total *int64 `json:"total_tokens,omitzero"`
		} `json:"usage"`
		Meta struct {
			Billed jsontext.Value `json:"billed_units,omitzero"`
		} `json:"meta"`
	}
	out.ID, out.Model, out.Usage.Total = a.ID, a.Model, a.TotalTokens
	if a.BilledUnits != "" {
		out.Meta.Billed = jsontext.Value(a.BilledUnits)
	}
	for _, result := range a.Results {
		c := clientResult{Index: result.Index, Score: jsontext.Value(result.Score)}
		if r.ReturnDocuments {
			c.Document = r.Documents[result.Index].object()
		}
		out.Results = append(out.Results, c)
	}
	b, _ := json.Marshal(out, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) // every value was read as JSON
	return b
}

func (d Document) object() jsontext.Value {
	if d.Fields != nil {
		return jsontext.Value(d.Raw)
	}
	return slices.Concat(jsontext.Value(`{"text":`), jsontext.Value(d.Raw), jsontext.Value("}"))
}
