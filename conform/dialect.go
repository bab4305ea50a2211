package conform

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Dialect is one of the four wire formats.
type Dialect string

// The four dialects.
const (
	Chat      Dialect = "chat"
	Responses Dialect = "responses"
	Anthropic Dialect = "anthropic"
	Gemini    Dialect = "gemini"
)

// Dialects lists the four dialects in the order in which tables show them.
func Dialects() []Dialect { return []Dialect{Chat, Responses, Anthropic, Gemini} }

// ParseDialect reads the name of a dialect.
func ParseDialect(s string) (Dialect, error) {
	if d := Dialect(s); slices.Contains(Dialects(), d) {
		return d, nil
	}
	return "", fmt.Errorf("there is no dialect %q; write chat, responses, anthropic or gemini", s)
}

// DefaultPath is where a vendor's SDK sends its requests. {model} stands for the
// model, and {verb} for Gemini's verb.
func (d Dialect) DefaultPath() string {
	switch d {
	case Chat:
		return "/v1/chat/completions"
	case Responses:
		return "/v1/responses"
	case Anthropic:
		return "/v1/messages"
	default:
		return "/v1beta/models/{model}:{verb}"
	}
}

// spokenAt is the dialect of a request by its path.
func spokenAt(path string) Dialect {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat
	case strings.HasSuffix(path, "/responses"):
		return Responses
	case strings.HasSuffix(path, "/messages"):
		return Anthropic
	case strings.Contains(path, "enerateContent"):
		return Gemini
	}
	return ""
}

// voice speaks and understands one dialect, on both sides.
type voice interface {
	// canAsk and canAnswer cut a description down to what the dialect can say.
	canAsk(Ask) Ask
	canAnswer(Reply) Reply

	writeAsk(a Ask, model string, stream bool) []byte
	readAsk(body []byte, h http.Header, path string) heard

	writeWhole(Reply) []byte
	writeStream(Reply) []event
	readWhole(body []byte) Seen
	readStream(events []event) Seen

	writeFault(Fault) (status int, body []byte)
	writeStreamFault(f Fault, before Reply) []event
	readFault(status int, body []byte) (Fault, error)

	credential(h http.Header, key string)
}

func voiceOf(d Dialect) voice {
	switch d {
	case Chat:
		return chat{}
	case Responses:
		return responses{}
	case Anthropic:
		return anthropic{}
	default:
		return gemini{}
	}
}

// Cell is one way through a gateway.
type Cell struct {
	Client   Dialect
	Upstream Dialect
	Stream   bool
}

func (c Cell) String() string {
	mode := "whole"
	if c.Stream {
		mode = "stream"
	}
	return string(c.Client) + ">" + string(c.Upstream) + " " + mode
}

// Same says whether both sides speak the same dialect.
func (c Cell) Same() bool { return c.Client == c.Upstream }

// cellSet is a set of pairs as a case writes it: "all", "same", "cross", or
// client>upstream with "*" for any, several of them with commas; "-" takes out.
type cellSet string

func (s cellSet) has(c Cell) bool {
	in := false
	for word := range strings.FieldsFuncSeq(string(s), func(r rune) bool { return r == ',' || r == ' ' }) {
		rest, minus := strings.CutPrefix(word, "-")
		if matchCell(rest, c) {
			in = !minus
		}
	}
	return in
}

func matchCell(word string, c Cell) bool {
	switch word {
	case "all":
		return true
	case "same":
		return c.Same()
	case "cross":
		return !c.Same()
	}
	client, upstream, _ := strings.Cut(word, ">")
	return (client == "*" || client == string(c.Client)) && (upstream == "*" || upstream == string(c.Upstream))
}

func (s cellSet) check() error {
	for word := range strings.FieldsFuncSeq(string(s), func(r rune) bool { return r == ',' || r == ' ' }) {
		word = strings.TrimPrefix(word, "-")
		if word == "all" || word == "same" || word == "cross" {
			continue
		}
		client, upstream, ok := strings.Cut(word, ">")
		if !ok {
			return fmt.Errorf("%q names no cells; write all, same, cross or client>upstream", word)
		}
		for _, side := range []string{client, upstream} {
			if _, err := ParseDialect(side); err != nil && side != "*" {
				return err
			}
		}
	}
	return nil
}
