package conform

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Dialect is one of the wire formats.
type Dialect string

// The dialects.
const (
	Chat      Dialect = "chat"
	Responses Dialect = "responses"
	Anthropic Dialect = "anthropic"
	Gemini    Dialect = "gemini"
	Converse  Dialect = "converse"
)

// Dialects lists the dialects in the order in which tables show them.
func Dialects() []Dialect { return []Dialect{Chat, Responses, Anthropic, Gemini, Converse} }

// ParseDialect reads the name of a dialect.
func ParseDialect(s string) (Dialect, error) {
	if d := Dialect(s); slices.Contains(Dialects(), d) {
		return d, nil
	}
	return "", fmt.Errorf("there is no dialect %q; write chat, responses, anthropic, gemini or converse", s)
}

// DefaultPath returns the path that the vendor's SDK uses, with {model} for the model and
// {verb} for the verb of Gemini and Converse.
func (d Dialect) DefaultPath() string {
	switch d {
	case Chat:
		return "/v1/chat/completions"
	case Responses:
		return "/v1/responses"
	case Anthropic:
		return "/v1/messages"
	case Converse:
		return "/model/{model}/{verb}"
	default:
		return "/v1beta/models/{model}:{verb}"
	}
}

// dialectAt returns the dialect of a path, or "" if there is none.
func dialectAt(path string) Dialect {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return Chat
	case strings.HasSuffix(path, "/responses"):
		return Responses
	case strings.HasSuffix(path, "/messages"):
		return Anthropic
	case strings.Contains(path, "enerateContent"):
		return Gemini
	case strings.HasPrefix(path, "/model/") && (strings.HasSuffix(path, "/"+converseVerb) || strings.HasSuffix(path, "/"+converseStream)):
		return Converse
	}
	return ""
}

// codec reads and writes the requests and responses of one dialect.
type codec interface {
	// fitRequest and fitResponse return what the dialect can express.
	fitRequest(Request) Request
	fitResponse(Response) Response

	writeRequest(a Request, model string, stream bool) []byte
	readRequest(body []byte, h http.Header, path string) Received

	writeBody(Response) []byte
	writeStream(Response) []event
	readBody(body []byte) Reading
	readStream(events []event) Reading

	writeError(APIError) (status int, body []byte)
	writeStreamError(f APIError, before Response) []event
	readError(status int, body []byte) (APIError, error)

	credential(h http.Header, key string)
}

// codecOf returns the codec of a dialect with what the dialect cannot express.
func codecOf(d Dialect) codec {
	switch d {
	case Chat:
		return chat{limits{noSeals: true, noReasoning: true, noResultImages: true, noFailed: true, callsLast: true, noMatch: true, noCache: true, noTopK: true}}
	case Responses:
		return responses{limits{noStop: true, noFailed: true, noMatch: true, noCache: true, noTopK: true, noSeed: true, noChoices: true}}
	case Anthropic:
		return anthropic{limits{noRefusal: true, noFormatName: true, defaultMax: "1024", noDeveloper: true, noSeed: true, noChoices: true}}
	case Converse:
		return converse{limits{noRefusal: true, noSerial: true, noMidSystem: true, noDeveloper: true, noTopK: true, noSeed: true, noChoices: true, noUser: true, noMatched: true, noThinkTokens: true, noNone: true}}
	default:
		return gemini{limits{noRefusal: true, noFormatName: true, noSerial: true, noMidSystem: true, sealsAfter: true, noMatch: true, noCacheMade: true, noDeveloper: true, noCache: true, noUser: true}}
	}
}

// Cell is a pair of dialects and a mode.
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

// Same reports whether both sides use the same dialect.
func (c Cell) Same() bool { return c.Client == c.Upstream }

// cellSet is a set of cells in the notation of a case: "all", "same", "cross" or
// client>upstream, with "*" for any dialect. Commas separate several; "-" removes cells.
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
