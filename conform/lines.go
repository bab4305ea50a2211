package conform

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A line of a section is a verb, a space and arguments. An argument in double quotes is a
// JSON string. Empty lines and lines that begin with # are ignored.

func eachLine(text string, do func(verb, rest string) error) error {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		verb, rest, _ := strings.Cut(line, " ")
		if err := do(verb, strings.TrimLeft(rest, " ")); err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return nil
}

// words splits the arguments of a line into at most n words. A JSON string is one word, and
// the last word extends to the end of the line.
func words(rest string, n int) ([]string, error) {
	var out []string
	for len(out) < n && rest != "" {
		var w string
		switch {
		case rest[0] == '"':
			d := json.NewDecoder(strings.NewReader(rest))
			if err := d.Decode(&w); err != nil {
				return nil, fmt.Errorf("%s is not a JSON string: %w", rest, err)
			}
			rest = rest[d.InputOffset():]
		case len(out) == n-1:
			w, rest = rest, ""
		default:
			w, rest, _ = strings.Cut(rest, " ")
		}
		out = append(out, expand(w))
		rest = strings.TrimLeft(rest, " ")
	}
	if rest != "" {
		return nil, fmt.Errorf("%q is too much", rest)
	}
	return out, nil
}

// expand replaces @REPEAT(text,n) with n copies of the text.
func expand(w string) string {
	inner, ok := strings.CutPrefix(w, "@REPEAT(")
	if !ok {
		return w
	}
	inner = strings.TrimSuffix(inner, ")")
	i := strings.LastIndexByte(inner, ',')
	if i < 0 {
		return w
	}
	n, err := strconv.Atoi(inner[i+1:])
	if err != nil {
		return w
	}
	return strings.Repeat(inner[:i], n)
}

// requestLines is the request that the lines of a section describe.
type requestLines struct {
	Request
	again bool // the request continues the conversation of the previous round
	calls int
}

func parseRequest(text string, before int) (requestLines, error) {
	a := requestLines{calls: before}
	err := eachLine(text, a.line)
	return a, err
}

func (a *requestLines) line(verb, rest string) error {
	n := map[string]int{"tool": 3, "format": 2, "call": 2, "result": 2, "failed": 2, "image": 2, "result-image": 3, "sig": 1, "again": 0}
	limit, known := n[verb]
	if !known {
		limit = 1
	}
	w, err := words(rest, max(limit, 1))
	if err != nil {
		return err
	}
	for len(w) < limit {
		if verb != "tool" && limit > 1 {
			return fmt.Errorf("%s needs %d words", verb, limit)
		}
		w = append(w, "")
	}
	if len(w) == 0 {
		w = append(w, "")
	}
	return a.take(verb, w)
}

func (a *requestLines) take(verb string, w []string) error {
	switch verb {
	case "again":
		a.again = true
	case "system", "user", "assistant":
		a.Turns = append(a.Turns, Turn{Role: verb, Pieces: []Piece{{Kind: kindText, Text: w[0]}}})
	case "think", "refusal":
		a.add("assistant", Piece{Kind: verb, Text: w[0]})
	case "text":
		a.add(a.speaker(), Piece{Kind: kindText, Text: w[0]})
	case "sig":
		return sign(a.last(), w[0])
	case "call":
		a.calls++
		a.add("assistant", Piece{Kind: kindCall, Name: w[0], Args: w[1], number: a.calls})
	case "result", "failed":
		return a.result(w[0], w[1], verb == "failed")
	case "image":
		a.add("user", Piece{Kind: kindImage, Image: Image{w[0], w[1]}})
	case "result-image":
		return a.resultImage(w)
	default:
		return a.setting(verb, w)
	}
	return nil
}

func (a *requestLines) setting(verb string, w []string) error {
	switch verb {
	case "tool":
		a.Tools = append(a.Tools, Tool{Name: w[0], About: w[1], Schema: w[2]})
	case "choice":
		a.Choice = w[0]
	case "serial":
		a.Serial = true
	case "max":
		a.Max = w[0]
	case "temperature":
		a.Temperature = w[0]
	case "top_p":
		a.TopP = w[0]
	case "stop":
		a.Stop = append(a.Stop, w[0])
	case "format":
		a.Format = &Format{Name: w[0], Schema: w[1], Strict: true}
	case "reasoning":
		a.Reasoning = w[0]
	default:
		return fmt.Errorf("an ask has no line %q", verb)
	}
	return nil
}

func (a *requestLines) speaker() string {
	if len(a.Turns) == 0 {
		return "user"
	}
	return a.Turns[len(a.Turns)-1].Role
}

func (a *requestLines) add(role string, p Piece) {
	if len(a.Turns) == 0 || a.speaker() != role {
		a.Turns = append(a.Turns, Turn{Role: role})
	}
	t := &a.Turns[len(a.Turns)-1]
	t.Pieces = append(t.Pieces, p)
}

func (a *requestLines) last() []Piece {
	if len(a.Turns) == 0 {
		return nil
	}
	return a.Turns[len(a.Turns)-1].Pieces
}

func (a *requestLines) result(number, text string, failed bool) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("result %q: write the number of the call that it answers", number)
	}
	a.add("tool", Piece{Kind: kindResult, Text: text, Failed: failed, number: n})
	return nil
}

func (a *requestLines) resultImage(w []string) error {
	for i, p := range a.last() {
		if p.Kind == kindResult && strconv.Itoa(p.number) == w[0] {
			p.Images = append(p.Images, Image{w[1], w[2]})
			a.last()[i] = p
			return nil
		}
	}
	return fmt.Errorf("result-image %s: there is no such result before it", w[0])
}

func sign(list []Piece, sig string) error {
	if len(list) == 0 {
		return fmt.Errorf("sig: there is nothing before it that could be signed")
	}
	list[len(list)-1].Sig = sig
	return nil
}

// parseResponse reads the lines of a response. before is the number of calls in earlier
// rounds.
func parseResponse(text string, before int) (Response, error) {
	r := Response{Stop: "end"}
	stopped := false
	err := eachLine(text, func(verb, rest string) error {
		if verb == "stop" {
			stopped = true
		}
		return r.line(verb, rest, before)
	})
	if !stopped && r.has(kindCall) {
		r.Stop = "tool"
	}
	return r, err
}

func (r *Response) line(verb, rest string, before int) error {
	limit := map[string]int{"call": 2, "cite": 2, "stop": 2, "error": 2, "then-error": 2}[verb]
	w, err := words(rest, max(limit, 1))
	if err != nil {
		return err
	}
	for len(w) < max(limit, 1) {
		w = append(w, "")
	}
	switch verb {
	case "text", "think", "refusal":
		r.Pieces = append(r.Pieces, Piece{Kind: verb, Text: w[0]})
	case "sig":
		return sign(r.Pieces, w[0])
	case "call":
		r.Pieces = append(r.Pieces, Piece{Kind: kindCall, Name: w[0], Args: w[1], number: before + len(r.calls()) + 1})
	case "cite":
		if len(r.Pieces) == 0 {
			return fmt.Errorf("cite: there is no text before it")
		}
		p := &r.Pieces[len(r.Pieces)-1]
		p.Cites = append(p.Cites, Cite{URL: w[0], Title: w[1], span: p.Text})
	case "stop":
		r.Stop, r.Match = w[0], w[1]
	case "usage":
		r.Usage = &Usage{}
		return r.Usage.read(rest)
	case "weave":
		r.interleave = true
	case "error", "then-error":
		return r.parseError(verb, w)
	case "then-cut", "then-reset", "then-hold":
		r.breaks = strings.TrimPrefix(verb, "then-")
	default:
		return fmt.Errorf("an answer has no line %q", verb)
	}
	return nil
}

func (u *Usage) read(rest string) error {
	for _, f := range strings.Fields(rest) {
		name, number, _ := strings.Cut(f, "=")
		n, err := strconv.Atoi(number)
		to := map[string]*int{"in": &u.In, "cached": &u.Cached, "written": &u.Written, "out": &u.Out, "think": &u.Think}[name]
		if err != nil || to == nil {
			return fmt.Errorf("usage %q: write in=, cached=, written=, out= or think= with a number", f)
		}
		*to = n
	}
	return nil
}

// parseError reads the arguments "KIND[/STATUS][;RETRY] MESSAGE".
func (r *Response) parseError(verb string, w []string) error {
	kind, retry, _ := strings.Cut(w[0], ";")
	kind, status, _ := strings.Cut(kind, "/")
	if _, known := errorKinds()[kind]; !known && kind != "any" {
		return fmt.Errorf("%q is no kind of error", kind)
	}
	r.Err = &APIError{Kind: kind, Message: w[1], Retry: retry}
	if status != "" {
		n, err := strconv.Atoi(status)
		if err != nil {
			return fmt.Errorf("status %q is not a number", status)
		}
		r.Err.Status = n
	}
	if verb == "then-error" {
		r.breaks = "error"
	}
	return nil
}
