package gemini

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// frame holds the members of one event, or of a non-streaming response, that the codec
// reads. Its memory is reused for the next event, because a stream has many small
// events.
type frame struct {
	named      bool // id and model are known, and are not read again
	id, model  string
	created    string
	candidates []candidate
	blocked    string
	usage      usage
	hasUsage   bool
	err        jsontext.Value
	tokens     []string // with which requests continue the candidates
	elements   int      // candidates and parts of this event
}

// candidate is the part of an event that belongs to one choice.
type candidate struct {
	index     int
	parts     []part
	finish    string
	message   string
	grounding jsontext.Value
	citations jsontext.Value
	logprobs  jsontext.Value
}

// part is a part of a response. A part with other members than text has its JSON in
// raw.
type part struct {
	text      string
	hasText   bool
	thought   bool
	signature string
	raw       []byte
}

// read fills the frame. Its slices of bytes are valid as long as data is.
func (f *frame) read(data []byte) error {
	f.candidates = f.candidates[:0]
	f.blocked, f.err, f.tokens, f.elements = "", nil, nil, 0
	s := wire.NewScanner(data)
	if s.Kind() != '{' {
		return errors.New("the response is not a JSON object")
	}
	for name := range s.Members() {
		switch string(name) {
		case "candidates":
			if s.Kind() == '{' { // one candidate without its array
				f.candidate(&s, data)
				continue
			}
			for range s.Items() {
				if f.accepts(&s, data) {
					f.candidate(&s, data)
				}
			}
		case "promptFeedback":
			for name := range s.Members() {
				if string(name) == "blockReason" {
					f.blocked = wire.Unquote(s.Value())
				}
			}
		case "usageMetadata":
			f.hasUsage = f.hasUsage || s.Kind() == '{'
			f.usage.read(&s)
		case "error":
			f.err = notNull(s.Value())
		case "responseId":
			if !f.named {
				f.id = wire.Unquote(s.Value())
			}
		case "modelVersion":
			if !f.named {
				f.model = wire.Unquote(s.Value())
			}
		case "createTime":
			if !f.named {
				f.created = wire.Unquote(s.Value())
			}
		}
	}
	if f.elements > wire.MaxElements(len(data)) {
		return errors.New("the response has too many candidates and parts for its size")
	}
	return s.End()
}

// accepts reports whether the next element of an array is to be read. If not, it skips it.
func (f *frame) accepts(s *wire.Scanner, data []byte) bool {
	if s.Kind() == '{' {
		if f.elements++; f.elements <= wire.MaxElements(len(data)) {
			return true
		}
	}
	s.Value()
	return false
}

func (f *frame) candidate(s *wire.Scanner, data []byte) {
	// A slot is used again with the memory of its parts.
	if n := len(f.candidates); n < cap(f.candidates) {
		f.candidates = f.candidates[:n+1]
		f.candidates[n] = candidate{parts: f.candidates[n].parts[:0]}
	} else {
		f.candidates = append(f.candidates, candidate{})
	}
	c := &f.candidates[len(f.candidates)-1]
	for name := range s.Members() {
		switch string(name) {
		case "content":
			for name := range s.Members() {
				if string(name) != "parts" {
					continue
				}
				if s.Kind() == '{' { // one part without its array
					c.parts = append(c.parts, scanPart(s, data))
					continue
				}
				for range s.Items() {
					if f.accepts(s, data) {
						c.parts = append(c.parts, scanPart(s, data))
					}
				}
			}
		case "index":
			c.index = int(min(count(s), maxChoice))
		case "finishReason":
			c.finish = wire.Unquote(s.Value())
		case "continuationToken":
			if s.Kind() == '"' {
				f.tokens = append(f.tokens, wire.Unquote(s.Value()))
			}
		case "finishMessage":
			c.message = wire.Unquote(s.Value())
		case "groundingMetadata":
			c.grounding = notNull(s.Value())
		case "citationMetadata":
			c.citations = notNull(s.Value())
		case "logprobsResult":
			c.logprobs = notNull(s.Value())
		}
	}
}

// maxChoice is the highest index of a choice.
const maxChoice = 127

func scanPart(s *wire.Scanner, data []byte) part {
	var p part
	complex := s.Kind() != '{'
	start := s.Offset()
	for name := range s.Members() {
		switch string(name) {
		case "text":
			p.hasText = s.Kind() == '"'
			p.text = wire.Unquote(s.Value())
		case "thought":
			p.thought = s.Kind() == 't'
		case "thoughtSignature":
			p.signature = wire.Unquote(s.Value())
		default:
			complex = true
		}
	}
	if complex {
		p.raw = data[start:s.Offset()]
	}
	return p
}

// notNull returns v, or nil if v is null.
func notNull(v wire.Raw) wire.Raw {
	if v.Kind() == 'n' {
		return nil
	}
	return v
}

func count(s *wire.Scanner) int64 { return int64(wire.ParseCount(s.Value())) }

func tokens(s *wire.Scanner) int64 { return int64(wire.ParseTokenCount(s.Value())) }

// usage holds the counts as they are on the wire. Reading keeps the counts that an
// event does not mention (USE-14).
type usage struct {
	prompt, cached, candidates, thoughts, tools int64
	tier                                        string // the service tier or, on Vertex, the type of traffic
}

func (u *usage) read(s *wire.Scanner) {
	for name := range s.Members() {
		switch string(name) {
		case "promptTokenCount":
			u.prompt = tokens(s)
		case "cachedContentTokenCount":
			u.cached = tokens(s)
		case "candidatesTokenCount":
			u.candidates = tokens(s)
		case "thoughtsTokenCount":
			u.thoughts = tokens(s)
		case "toolUsePromptTokenCount":
			u.tools = tokens(s)
		case "trafficType", "serviceTier":
			u.tier = wire.Unquote(s.Value())
		}
	}
}

// neutral returns counts that do not overlap, or nil if one of them is impossible.
func (u *usage) neutral() *llm.Usage {
	if min(u.prompt, u.cached, u.candidates, u.thoughts, u.tools) < 0 {
		return nil
	}
	return &llm.Usage{
		Input:     max(0, u.prompt-u.cached) + u.tools,
		CacheRead: u.cached,
		Output:    u.candidates,
		Reasoning: u.thoughts,
	}
}
