package rerank

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// codes are those of a report, with the first letter of what became of each.
func codes(r *llm.Report) string {
	var all []string
	for _, l := range r.Losses {
		all = append(all, string(l.Verdict[:1])+" "+l.Code)
	}
	return strings.Join(all, ", ")
}

func decode(t *testing.T, body string) *Request {
	t.Helper()
	r, err := DecodeRequest([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

type encoder = func(*Request, string, *llm.Report) (protocol.Outgoing, *llm.Error)

func TestEncode(t *testing.T) {
	for name, c := range map[string]struct{ ask, cohere, cohereLost, jina, jinaLost string }{
		"texts": {
			ask:    `{"model":"x","query":"q","documents":["a","b\u00e9"],"top_n":1,"return_documents":true}`,
			cohere: `{"model":"m","query":"q","documents":["a","bé"],"top_n":1}`,
			jina:   `{"model":"m","query":"q","documents":["a","bé"],"top_n":1,"return_documents":false}`,
		},
		"null is absent": {
			ask:    `{"query":"q","documents":["a"],"top_n":null,"rank_fields":null,"return_documents":null,"max_chunks_per_doc":null}`,
			cohere: `{"model":"m","query":"q","documents":["a"]}`,
			jina:   `{"model":"m","query":"q","documents":["a"],"return_documents":false}`,
		},
		"objects": {
			ask:        `{"query":"q","documents":[{"text":"a"},"b",{"text":"c","title":"t"}]}`,
			cohere:     `{"model":"m","query":"q","documents":["a","b","c"]}`,
			cohereLost: "d rerank.fields",
			jina:       `{"model":"m","query":"q","documents":["a","b","c"],"return_documents":false}`,
			jinaLost:   "d rerank.fields",
		},
		"limits and what nobody knows": {
			ask:        `{"query":"q","documents":["a"],"max_tokens_per_doc":9,"max_chunks_per_doc":2,"zeta":1,"alpha":{}}`,
			cohere:     `{"model":"m","query":"q","documents":["a"],"max_tokens_per_doc":9}`,
			cohereLost: "d rerank.max_chunks_per_doc, d rerank.unknown_field, d rerank.unknown_field",
			jina:       `{"model":"m","query":"q","documents":["a"],"return_documents":false}`,
			jinaLost:   "d rerank.max_chunks_per_doc, d rerank.unknown_field, d rerank.unknown_field, d rerank.max_tokens_per_doc",
		},
		"fields": {
			ask:        `{"query":"q","rank_fields":["title","year","text"],"documents":[{"text":"a \"b\"","year":1999,"title":"t","image":"i"},"s",{"title":"u","year":null}]}`,
			cohere:     `{"model":"m","query":"q","documents":["title: t\nyear: 1999\ntext: a \"b\"","s","title: u"]}`,
			cohereLost: "a rank_fields.joined",
			jina:       `{"model":"m","query":"q","documents":["title: t\nyear: 1999\ntext: a \"b\"","s","title: u"],"return_documents":false}`,
			jinaLost:   "a rank_fields.joined",
		},
		"the field text alone": {
			ask:    `{"query":"q","rank_fields":["text"],"documents":[{"text":"a","title":"t"}]}`,
			cohere: `{"model":"m","query":"q","documents":["a"]}`,
			jina:   `{"model":"m","query":"q","documents":["a"],"return_documents":false}`,
		},
		"images": {
			ask:        `{"query":"q","documents":["a",{"image":"https://h/i.png"}]}`,
			cohereLost: "r rerank.image",
			jina:       `{"model":"m","query":"q","documents":["a",{"image":"https://h/i.png"}],"return_documents":false}`,
		},
	} {
		for _, to := range []struct {
			encode           encoder
			path, want, lost string
		}{{EncodeCohere, "/v2/rerank", c.cohere, c.cohereLost}, {EncodeJina, "/v1/rerank", c.jina, c.jinaLost}} {
			report := &llm.Report{Mode: llm.Loose}
			out, err := to.encode(decode(t, c.ask), "m", report)
			if string(out.Body) != to.want || codes(report) != to.lost || (err != nil) != (to.want == "") || err == nil && out.Path != to.path {
				t.Errorf("%s, %s:\n got %s %s, lost %q, %v\nwant %s, lost %q", name, to.path, out.Path, out.Body, codes(report), err, to.want, to.lost)
			}
			_, err = to.encode(decode(t, c.ask), "m", &llm.Report{Mode: llm.Strict})
			if (err != nil) != (to.lost != "") {
				t.Errorf("%s, %s, strict: %v", name, to.path, err)
			}
		}
	}
}

func TestRequestsThatAreWrong(t *testing.T) {
	for body, param := range map[string]string{
		`no`:                                   "",
		`null`:                                 "",
		`[]`:                                   "",
		`{"documents":["a"]}`:                  "query",
		`{"query":1,"documents":["a"]}`:        "query",
		`{"query":"q"}`:                        "documents",
		`{"query":"q","documents":null}`:       "documents",
		`{"query":"q","documents":[]}`:         "documents",
		`{"query":"q","documents":"a"}`:        "documents",
		`{"query":"q","documents":["a",null]}`: "documents[1]",
		`{"query":"q","documents":[["a"]]}`:    "documents[0]",
		`{"query":"q","documents":[{"title":"t"}]}`:                    "documents[0]",
		`{"query":"q","documents":[{"text":1}]}`:                       "documents[0]",
		`{"query":"q","documents":[{"a":"b"}],"rank_fields":["c"]}`:    "documents[0]",
		`{"query":"q","documents":["a"],"rank_fields":"c"}`:            "rank_fields",
		`{"query":"q","documents":["a"],"top_n":0}`:                    "top_n",
		`{"query":"q","documents":["a"],"top_n":1.5}`:                  "top_n",
		`{"query":"q","documents":["a"],"return_documents":"yes"}`:     "return_documents",
		`{"query":"q","documents":["a"],"max_tokens_per_doc":"9"}`:     "max_tokens_per_doc",
		`{"query":"q","documents":["a"],"max_chunks_per_doc":"often"}`: "max_chunks_per_doc",
	} {
		r, err := DecodeRequest([]byte(body))
		if err == nil {
			_, err = EncodeCohere(r, "m", &llm.Report{})
		}
		if err == nil || err.Kind != llm.InvalidRequest || err.Param != param {
			t.Errorf("%s: %+v, want it to be about %q", body, err, param)
		}
	}
}

func TestAnswer(t *testing.T) {
	const texts = `{"query":"q","documents":["a",{"text":"b","n":1}]}`
	const returned = `{"query":"q","return_documents":true,"documents":["a",{"text":"b","n":1}]}`
	for name, c := range map[string]struct{ ask, answer, want string }{
		"cohere": {texts,
			`{"id":"r-1","results":[{"index":0,"relevance_score":0.10},{"index":1,"relevance_score":0.9}],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}}`,
			`{"id":"r-1","model":"","results":[{"index":1,"relevance_score":0.9},{"index":0,"relevance_score":0.10}],"usage":{},"meta":{"billed_units":{"search_units":1}}}`},
		"cohere, counted": {texts, `{"results":[],"meta":{"tokens":{"input_tokens":3,"output_tokens":1}}}`,
			`{"id":"","model":"","results":[],"usage":{"total_tokens":4},"meta":{}}`},
		"jina": {returned,
			`{"model":"j","results":[{"index":1,"relevance_score":-1e-3,"document":{"text":"theirs"}},{"index":0,"relevance_score":2}],"usage":{"total_tokens":12,"prompt_tokens":12}}`,
			`{"id":"","model":"j","results":[{"index":0,"relevance_score":2,"document":{"text":"a"}},{"index":1,"relevance_score":-1e-3,"document":{"text":"b","n":1}}],"usage":{"total_tokens":12},"meta":{}}`},
		"a count that is none": {texts, `{"results":[],"usage":{"total_tokens":-1},"meta":{"billed_units":null}}`,
			`{"id":"","model":"","results":[],"usage":{},"meta":{}}`},
	} {
		r := decode(t, c.ask)
		a, err := DecodeAnswer([]byte(c.answer), r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := EncodeAnswer(a, r); string(got) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		if u := a.Usage(); (u == nil) != (a.TotalTokens == nil) || u != nil && u.Input != *a.TotalTokens {
			t.Errorf("%s: usage %+v", name, u)
		}
	}
	for _, answer := range []string{
		`no`, `[]`, `{}`, `{"message":"m"}`, `{"results":{}}`, `{"results":[{"relevance_score":1}]}`, `{"results":[{"index":0}]}`,
		`{"results":[{"index":2,"relevance_score":1}]}`, `{"results":[{"index":-1,"relevance_score":1}]}`, `{"results":[{"index":0,"relevance_score":"1"}]}`,
		`{"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":1}]}`, `{"results":[{"index":0,"relevance_score":1e999}]}`,
	} {
		if a, err := DecodeAnswer([]byte(answer), decode(t, texts)); err == nil || err.Kind != llm.Upstream {
			t.Errorf("%s: %+v, %v", answer, a, err)
		}
	}
}

// Whatever is read is written as JSON with as many documents, and an answer's
// order is one of the request's documents, from the best down.
func FuzzRerank(f *testing.F) {
	f.Add(`{"query":"q","documents":["a",{"text":"b"},{"image":"i"}],"return_documents":true}`, `{"results":[{"index":1,"relevance_score":0.5},{"index":0,"relevance_score":0.7}]}`)
	f.Add(`{"query":"q","documents":[{"a":1}],"rank_fields":["a"]}`, `{"id":"x","results":[],"usage":{"total_tokens":1e300},"meta":{"billed_units":{}}}`)
	f.Fuzz(func(t *testing.T, ask, answer string) {
		r, bad := DecodeRequest([]byte(ask))
		if bad != nil {
			return
		}
		for _, encode := range []encoder{EncodeCohere, EncodeJina} {
			var sent struct {
				Documents []jsontext.Value `json:"documents"`
			}
			out, bad := encode(r, "m", &llm.Report{})
			if bad != nil {
				continue
			}
			if err := json.Unmarshal(out.Body, &sent); err != nil || len(sent.Documents) != len(r.Documents) {
				t.Fatalf("%s: %v", out.Body, err)
			}
		}
		a, bad := DecodeAnswer([]byte(answer), r)
		if bad != nil {
			return
		}
		var got struct {
			Results []struct {
				Index int     `json:"index"`
				Score float64 `json:"relevance_score"`
			} `json:"results"`
		}
		body := EncodeAnswer(a, r)
		if err := json.Unmarshal(body, &got, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil || len(got.Results) != len(a.Results) {
			t.Fatalf("%q: %v", body, err)
		}
		var scores []float64
		for _, result := range got.Results {
			scores = append(scores, -result.Score)
		}
		if !slices.IsSorted(scores) {
			t.Fatalf("%s is not in order", body)
		}
	})
}
