package gemini

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// span is a stretch of an answer and where it is from.
type span struct {
	part       int // of the content
	start, end int // bytes; both 0 where the whole text is meant
	citation   llm.Citation
}

type source struct {
	URI   string `json:"uri"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// readGrounding reads what searching has brought.
func readGrounding(raw jsontext.Value) []span {
	var g struct {
		Chunks []struct {
			Web       *source `json:"web"`
			Retrieved *source `json:"retrievedContext"`
			Maps      *source `json:"maps"`
		} `json:"groundingChunks"`
		Supports []struct {
			Segment struct {
				Part  int `json:"partIndex"`
				Start int `json:"startIndex"`
				End   int `json:"endIndex"`
			} `json:"segment"`
			Chunks []int `json:"groundingChunkIndices"`
		} `json:"groundingSupports"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &g, lenient) != nil {
		return nil
	}
	var sources []llm.Citation
	for _, c := range g.Chunks {
		var cite llm.Citation
		for _, s := range []*source{c.Web, c.Retrieved, c.Maps} {
			if s != nil {
				cite = llm.Citation{URL: s.URI, Title: s.Title, Quote: s.Text, Protocol: own}
			}
		}
		sources = append(sources, cite)
	}
	var spans []span
	for _, s := range g.Supports {
		for _, i := range s.Chunks {
			if i >= 0 && i < len(sources) {
				spans = append(spans, span{s.Segment.Part, s.Segment.Start, s.Segment.End, sources[i]})
			}
		}
	}
	if len(g.Supports) == 0 {
		for _, c := range sources {
			spans = append(spans, span{citation: c})
		}
	}
	return spans
}

// readCitations reads what the model has recited.
func readCitations(raw jsontext.Value) []span {
	var c struct {
		Citations []struct {
			Start int    `json:"startIndex"`
			End   int    `json:"endIndex"`
			URI   string `json:"uri"`
			Title string `json:"title"`
		} `json:"citations"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &c, lenient) != nil {
		return nil
	}
	var spans []span
	for _, s := range c.Citations {
		spans = append(spans, span{0, s.Start, s.End, llm.Citation{URL: s.URI, Title: s.Title, Protocol: own}})
	}
	return spans
}

// grounded gathers citations for the metadata at the end of an answer.
type grounded struct {
	chunks   []llm.Citation
	supports []support
}

type support struct{ part, start, end, chunk int }

// citable reports whether anything of a source can be named here.
func citable(c llm.Citation) bool { return c.URL+c.Title+c.Quote != "" }

func (g *grounded) add(c llm.Citation, part, start, end int) {
	chunk := -1
	for i, have := range g.chunks {
		if have.URL == c.URL && have.Title == c.Title && have.Quote == c.Quote {
			chunk = i
		}
	}
	if chunk < 0 {
		chunk = len(g.chunks)
		g.chunks = append(g.chunks, c)
	}
	if end > start {
		g.supports = append(g.supports, support{part, start, end, chunk})
	}
}

// appendTo writes the candidate's member; nothing where nothing was cited.
func (g *grounded) appendTo(b []byte) []byte {
	if len(g.chunks) == 0 {
		return b
	}
	b = append(b, `,"groundingMetadata":{"groundingChunks":[`...)
	for i, c := range g.chunks {
		if i > 0 {
			b = append(b, ',')
		}
		kind, quote := `{"web":{"uri":`, ""
		if c.Quote != "" && (c.Protocol == own || !strings.HasPrefix(c.URL, "http")) {
			kind, quote = `{"retrievedContext":{"uri":`, c.Quote // the kind of source that has words
		}
		b = appendString(append(b, kind...), c.URL)
		b = appendString(append(b, `,"title":`...), c.Title)
		if quote != "" {
			b = appendString(append(b, `,"text":`...), quote)
		}
		b = append(b, "}}"...)
	}
	b = append(b, `],"groundingSupports":[`...)
	for i, s := range g.supports {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"segment":{`...)
		if s.part > 0 {
			b = strconv.AppendInt(append(b, `"partIndex":`...), int64(s.part), 10)
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `"startIndex":`...), int64(s.start), 10)
		b = strconv.AppendInt(append(b, `,"endIndex":`...), int64(s.end), 10)
		b = strconv.AppendInt(append(b, `},"groundingChunkIndices":[`...), int64(s.chunk), 10)
		b = append(b, "]}"...)
	}
	return append(b, "]}"...)
}
