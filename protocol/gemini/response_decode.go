package gemini

import (
	"bytes"
	"math/bits"
	"sort"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeResponse decodes a non-streaming response as a stream of one event, so
// that both give the same blocks.
func (Codec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	s := streamDecoder{whole: true}
	var collector llm.Collector
	for _, e := range s.Finish(s.Decode(nil, body, nil)) {
		if f, failed := e.(llm.Failure); failed {
			return nil, f.Err
		}
		if err := collector.Add(e); err != nil {
			return nil, badAnswer(err)
		}
	}
	r, err := collector.Response()
	if err != nil {
		return nil, badAnswer(err)
	}
	readExtras(r, body)
	return r, nil
}

// readExtras keeps the members that the neutral model has no field for.
func readExtras(r *llm.Response, body []byte) {
	var w Response
	if r.Ext.Protocol = own; bytes.TrimSpace(body)[0] != '{' || wire.UnmarshalLenient(body, &w) != nil {
		return
	}
	keep(&r.Ext, "", w.Extra.All())
	if f := w.PromptFeedback.Ptr(); f != nil {
		if f.BlockReason.IsSet() {
			keep(&r.Ext, atFeedback, f.Extra.All())
		} else {
			raw, _ := wire.Marshal(f) // cannot fail: it was decoded from JSON
			keepRaw(&r.Ext, "promptFeedback", raw)
		}
	}
	if u := w.UsageMetadata.Ptr(); u != nil {
		keep(&r.Ext, atUsage, u.Extra.All())
		note(&r.Ext, atUsage+"toolUsePromptTokenCount", wire.Raw(u.ToolUsePromptTokenCount.Value()))
	}
	for _, c := range w.Candidates.Value().All() {
		index, _ := c.Index.Value().Int64()
		for i := range r.Choices {
			if r.Choices[i].Index == int(index) {
				keep(&r.Choices[i].Ext, "", c.Extra.All())
			}
		}
	}
}

// span is a range of a response's text and its source.
type span struct {
	part       int // index of the part in the content
	start, end int // bytes; both 0 if the whole text is meant
	citation   llm.Citation
	split      bool // an earlier text has the beginning
	texts      int  // that have ended before it
}

type source struct {
	URI   string `json:"uri"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// readGrounding decodes the sources of a search.
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
	if len(raw) == 0 || json.Unmarshal(raw, &g, wire.Lenient) != nil {
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
				spans = append(spans, span{part: s.Segment.Part, start: s.Segment.Start, end: s.Segment.End, citation: sources[i]})
			}
			if len(spans) == wire.MaxElements(len(raw)) { // an index is much shorter than a span
				return spans
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

// readCitations decodes citations of training data.
func readCitations(raw jsontext.Value) []span {
	var c struct {
		Citations []struct {
			Start int    `json:"startIndex"`
			End   int    `json:"endIndex"`
			URI   string `json:"uri"`
			Title string `json:"title"`
		} `json:"citations"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &c, wire.Lenient) != nil {
		return nil
	}
	var spans []span
	for _, s := range c.Citations {
		spans = append(spans, span{start: s.Start, end: s.End, citation: llm.Citation{URL: s.URI, Title: s.Title, Protocol: own}})
	}
	return spans
}

// readLogprobs returns log probabilities as the items of OpenAI's list, without its brackets.
// Google has the chosen tokens in one list and the top candidates of each position in another.
func readLogprobs(raw jsontext.Value) []byte {
	var chosen, top [][]byte
	s := wire.NewScanner(raw)
	for name := range s.Members() {
		switch string(name) {
		case "chosenCandidates":
			for range s.Items() {
				chosen = append(chosen, scanToken(&s))
			}
		case "topCandidates":
			for range s.Items() {
				top = append(top, scanTop(&s))
			}
		}
	}
	if s.End() != nil {
		return nil
	}
	var items []byte
	for i, token := range chosen {
		if i > 0 {
			items = append(items, ',')
		}
		items = append(append(items, token...), `,"top_logprobs":[`...)
		if i < len(top) {
			items = append(items, top[i]...)
		}
		items = append(items, "]}"...)
	}
	return items
}

// scanTop returns the top candidates of one position.
func scanTop(s *wire.Scanner) (list []byte) {
	for name := range s.Members() {
		if string(name) != "candidates" {
			continue
		}
		for range s.Items() {
			if len(list) > 0 {
				list = append(list, ',')
			}
			list = append(append(list, scanToken(s)...), '}')
		}
	}
	return list
}

// scanToken returns a token in OpenAI's form, without the closing brace. Google leaves out a
// probability of 0. OpenAI writes one that JSON cannot express as -9999.
func scanToken(s *wire.Scanner) []byte {
	token, logprob := "", "0"
	for name := range s.Members() {
		switch string(name) {
		case "token":
			token = wire.Unquote(s.Value())
		case "logProbability":
			if v := s.Value(); v.Kind() == '0' {
				logprob = string(v)
			} else if v.Kind() == '"' {
				logprob = "-9999"
			}
		}
	}
	b := wire.AppendQuote([]byte(`{"token":`), token)
	b = append(append(append(b, `,"logprob":`...), logprob...), `,"bytes":[`...)
	for i := range len(token) {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(token[i]), 10)
	}
	return append(b, ']')
}

// tokenLogprob is a token of OpenAI's list of log probabilities. The number keeps
// its text.
type tokenLogprob struct {
	Token   string         `json:"token"`
	Logprob jsontext.Value `json:"logprob"`
	Top     []tokenLogprob `json:"top_logprobs"`
}

// logprobsOf joins the lists of all texts of a choice.
func logprobsOf(blocks []llm.Block) string {
	var lists []string
	for _, b := range blocks {
		var list llm.Raw
		switch b := b.(type) {
		case *llm.Text:
			list = b.Logprobs
		case *llm.Refusal:
			list = b.Logprobs
		}
		if inner := strings.TrimSpace(string(list)); len(inner) > len("[]") {
			lists = append(lists, inner[1:len(inner)-1])
		}
	}
	return strings.Join(lists, ",")
}

// ruler maps byte offsets of a text to character offsets without keeping the
// text. Google counts bytes, the neutral model characters.
type ruler struct {
	words []measured
	bytes int
	total int // characters
}

// measured is what a ruler knows of 64 bytes.
type measured struct {
	starts uint64 // a bit per byte, set where a character begins
	before int    // characters that begin before them
}

// rulerLimit limits the bytes that are measured, and with them the memory. Later
// offsets are unknown.
const rulerLimit = 1 << 20

func (r *ruler) reset() { *r = ruler{words: r.words[:0]} }

// add measures the next piece of text.
func (r *ruler) add(s string) {
	for i := 0; i < len(s) && r.bytes < rulerLimit; i++ {
		if r.bytes%64 == 0 {
			r.words = append(r.words, measured{before: r.total})
		}
		if s[i]&0xC0 != 0x80 { // not a continuation byte
			r.words[r.bytes/64].starts |= 1 << (r.bytes % 64)
			r.total++
		}
		r.bytes++
	}
}

// chars returns the number of characters that begin before a byte offset.
func (r *ruler) chars(byteAt int) int {
	if byteAt >= r.bytes {
		return r.total
	}
	byteAt = max(byteAt, 0)
	word := r.words[byteAt/64]
	return word.before + bits.OnesCount64(word.starts&(1<<(byteAt%64)-1))
}

// byteOf returns the byte offset of a character, or the end of the text if there
// are fewer.
func (r *ruler) byteOf(char int) int {
	if char = max(char, 0); char >= r.total {
		return r.bytes
	}
	i := sort.Search(len(r.words), func(i int) bool { return r.words[i].before > char }) - 1
	word := r.words[i].starts
	for range char - r.words[i].before {
		word &= word - 1
	}
	return i*64 + bits.TrailingZeros64(word)
}
