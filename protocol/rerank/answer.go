package rerank

import (
	"cmp"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Answer is a ranking of documents, the most relevant first.
type Answer struct {
	ID          string // empty if the upstream gave none
	Model       string // empty if the upstream gave none
	Results     []Result
	TotalTokens *int64  // nil if the upstream counted none
	BilledUnits llm.Raw // as the upstream wrote them; may be empty
}

// Result is one document of a ranking. Scores of different models cannot be compared.
type Result struct {
	Index int        // among the request's documents
	Score llm.Number // as the upstream wrote it
}

// Usage returns the token counts, or nil.
func (a *Answer) Usage() *llm.Usage {
	if a.TotalTokens == nil {
		return nil
	}
	return &llm.Usage{Input: *a.TotalTokens}
}

// wireAnswer has the members of Cohere's and of Jina's responses.
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

// DecodeAnswer decodes the response of either vendor.
func DecodeAnswer(body []byte, r *Request) (*Answer, *llm.Error) {
	var in wireAnswer
	if err := json.Unmarshal(body, &in, wire.Lenient); err != nil {
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

// order sets the results, the most relevant first.
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

// total returns the number of tokens, which Cohere reports in two parts.
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
	if !counted || sum < 0 || sum > math.MaxInt32 { // not a count
		return nil
	}
	n := int64(sum)
	return &n
}

func badAnswer(cause error) *llm.Error {
	return codec.InvalidResponse("the upstream's response does not hold a score for documents of the request", cause)
}

type clientResult struct {
	Index    int            `json:"index"`
	Score    jsontext.Value `json:"relevance_score"`
	Document jsontext.Value `json:"document,omitzero"`
}

// EncodeAnswer encodes a response for the client. It takes the documents from the
// request. A text becomes an object, as in the responses of both vendors.
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
	b, _ := json.Marshal(out, wire.Lenient) // every value was read as JSON
	return b
}

func (d Document) object() jsontext.Value {
	if d.Fields != nil {
		return jsontext.Value(d.Raw)
	}
	return slices.Concat(jsontext.Value(`{"text":`), jsontext.Value(d.Raw), jsontext.Value("}"))
}
