package conform

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"
)

// Case is one file of the corpus.
type Case struct {
	Name  string   // group/file
	Title string   // the first line without the ids
	IDs   []string // such as CST-13

	cells   cellSet
	stream  bool
	whole   bool
	gateway bool // the case needs a gateway
	frame   framing
	lose    []rule
	free    []rule
	said    cellSet // the cells in which the gateway must report a loss that the lines cannot describe
	headers [][2]string
	rounds  []*round
	record  recording
}

// rule is a set of features in a set of cells.
type rule struct {
	features []string
	cells    cellSet
}

func covers(rules []rule, feature string, c Cell) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return slices.Contains(r.features, feature) && r.cells.has(c) })
}

// round is one request and its response.
type round struct {
	request         *requestLines
	rawRequest      map[Dialect]string
	wantRequest     map[Dialect]*requestLines // "" is for all
	response        *Response
	rawResponse     map[Dialect]map[string]string // by extension
	wantResponse    map[Dialect]*Response         // "" is for all
	wantRawRequest  map[Dialect]string
	wantRawResponse map[Dialect]map[string]string
	has             map[string][]string // "heard", "heard.DIALECT", "seen", …
	lacks           map[string][]string
}

// Group returns the folder of the case.
func (c *Case) Group() string {
	g, _, _ := strings.Cut(c.Name, "/")
	return g
}

var caseID = regexp.MustCompile(`^[A-Z]{3}-\d+$`)

// ParseCase reads a case. The name is for messages and reports.
func ParseCase(name string, text []byte) (*Case, error) {
	c := &Case{Name: name, cells: "all", stream: true, whole: true}
	a := txtar.Parse(text)
	first, _, _ := strings.Cut(string(a.Comment), "\n")
	for word := range strings.FieldsSeq(first) {
		if !caseID.MatchString(strings.Trim(word, ",:")) {
			break
		}
		c.IDs = append(c.IDs, strings.Trim(word, ",:"))
		first = strings.TrimSpace(strings.TrimPrefix(first, word))
	}
	if c.Title = first; c.Title == "" {
		return nil, fmt.Errorf("%s: the first line is empty; write what the case is about", name)
	}
	for _, f := range a.Files {
		if err := c.section(f.Name, string(f.Data)); err != nil {
			return nil, fmt.Errorf("%s: section %s: %w", name, f.Name, err)
		}
	}
	return c, c.check()
}

func (c *Case) check() error {
	if len(c.rounds) == 0 {
		return fmt.Errorf("%s: there is no ask; write a section ask", c.Name)
	}
	for i, r := range c.rounds {
		switch {
		case r.request == nil && len(r.rawRequest) == 0:
			return fmt.Errorf("%s: round %d has no ask", c.Name, i+1)
		case c.Recorded():
		case r.response == nil && len(r.rawResponse) == 0 && !r.refuses():
			return fmt.Errorf("%s: round %d has no answer", c.Name, i+1)
		case r.response == nil && len(r.wantResponse) == 0 && len(r.wantRawResponse) == 0:
			return fmt.Errorf("%s: round %d has a raw answer and does not say what the client sees", c.Name, i+1)
		}
	}
	return nil
}

// refuses reports whether the gateway must reject the request itself.
func (r *round) refuses() bool {
	for _, s := range r.wantResponse {
		if s.Err != nil && s.Err.Kind == refused {
			return true
		}
	}
	return false
}

// section reads a section whose name is NAME[.DIALECT][.EXTENSION][#ROUND].
func (c *Case) section(name, text string) error {
	if name == "run" {
		return eachLine(text, c.setting)
	}
	name, number, _ := strings.Cut(name, "#")
	n := 1
	if number != "" {
		var err error
		if n, err = strconv.Atoi(number); err != nil || n < 1 || n > len(c.rounds)+1 {
			return fmt.Errorf("round %q; rounds are numbered from 1 without gaps", number)
		}
	}
	for len(c.rounds) < n {
		c.rounds = append(c.rounds, &round{rawRequest: map[Dialect]string{}, wantRequest: map[Dialect]*requestLines{}, rawResponse: map[Dialect]map[string]string{},
			wantResponse: map[Dialect]*Response{}, wantRawRequest: map[Dialect]string{}, wantRawResponse: map[Dialect]map[string]string{}, has: map[string][]string{}, lacks: map[string][]string{}})
	}
	words := strings.Split(name, ".")
	base, ext := words[0], ""
	var d Dialect
	if len(words) > 1 {
		if parsed, err := ParseDialect(words[1]); err == nil {
			d, words = parsed, words[1:]
		}
	}
	if len(words) > 1 {
		ext = words[1]
	}
	return c.rounds[n-1].take(base, d, ext, text, c.callsBefore(n))
}

// callsBefore returns the number of calls in earlier rounds.
func (c *Case) callsBefore(n int) int {
	calls := 0
	for _, r := range c.rounds[:n-1] {
		if r.request != nil {
			calls += r.request.calls - calls
		}
		if r.response != nil {
			calls += len(r.response.calls())
		}
	}
	return calls
}

func (r *round) take(base string, d Dialect, ext, text string, before int) (err error) {
	if r.request != nil {
		before = r.request.calls
	}
	switch key := base + "/" + ext; {
	case key == "ask/" && d == "":
		var a requestLines
		a, err = parseRequest(text, before)
		r.request = &a
	case key == "ask/json" && d != "":
		r.rawRequest[d] = text
	case key == "heard/":
		var a requestLines
		a, err = parseRequest(text, 0)
		r.wantRequest[d] = &a
	case key == "heard/json" && d != "":
		r.wantRawRequest[d] = text
	case key == "answer/" && d == "":
		var a Response
		a, err = parseResponse(text, before)
		r.response = &a
	case base == "answer" && d != "" && slices.Contains([]string{"sse", "json", "bytes", "http"}, ext):
		put(r.rawResponse, d, ext, text)
	case key == "seen/":
		var a Response
		a, err = parseWantResponse(text, before)
		r.wantResponse[d] = &a
	case base == "seen" && d != "" && (ext == "sse" || ext == "json"):
		put(r.wantRawResponse, d, ext, text)
	case (base == "seen" || base == "heard") && ext == "has":
		r.has[base+string(d)] = nonEmpty(text)
	case (base == "seen" || base == "heard") && ext == "lacks":
		r.lacks[base+string(d)] = nonEmpty(text)
	default:
		return fmt.Errorf("there is no such section")
	}
	return err
}

func put(m map[Dialect]map[string]string, d Dialect, ext, text string) {
	if m[d] == nil {
		m[d] = map[string]string{}
	}
	m[d][ext] = text
}

func nonEmpty(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(s string) bool { return s == "" })
}

// refused is the kind of an error that the gateway returns without an upstream request.
const refused = "refused"

// parseWantResponse reads the lines of an expected response, which can be "refused WORDS".
func parseWantResponse(text string, before int) (Response, error) {
	if rest, ok := strings.CutPrefix(strings.TrimSpace(text), refused); ok {
		return Response{Err: &APIError{Kind: refused, Message: strings.TrimSpace(rest)}}, nil
	}
	return parseResponse(text, before)
}

func (c *Case) setting(verb, rest string) error {
	if known, err := c.record.setting(verb, rest); known {
		return err
	}
	switch verb {
	case "cells":
		c.cells = cellSet(rest)
		return c.cells.check()
	case "modes":
		c.stream, c.whole = strings.Contains(rest, "stream"), strings.Contains(rest, "whole")
	case "said":
		c.said = cellSet(strings.TrimPrefix(rest, "on "))
		return c.said.check()
	case "gateway":
		c.gateway = true
	case "frame":
		for _, f := range strings.Fields(rest) {
			if !slices.Contains(frames(), f) {
				return fmt.Errorf("there is no frame %q; write one of %v", f, frames())
			}
			c.frame.names = append(c.frame.names, f)
		}
	case "cut":
		n, err := strconv.Atoi(rest)
		c.frame.cut = n
		return err
	case "lose", "free":
		features, cells, ok := strings.Cut(rest, " on ")
		if !ok {
			return fmt.Errorf("%s %q; write FEATURES on CELLS", verb, rest)
		}
		r := rule{strings.Fields(features), cellSet(cells)}
		if verb == "lose" {
			c.lose = append(c.lose, r)
		} else {
			c.free = append(c.free, r)
		}
		return r.cells.check()
	case "header":
		name, value, _ := strings.Cut(rest, ":")
		c.headers = append(c.headers, [2]string{name, strings.TrimSpace(value)})
	default:
		return fmt.Errorf("there is no setting %q", verb)
	}
	return nil
}

// runs reports whether the case applies to a cell.
func (c *Case) runs(cell Cell) bool {
	if !c.cells.has(cell) || !c.frame.suits(cell.Upstream) || cell.Stream && !c.stream || !cell.Stream && !c.whole {
		return false
	}
	for _, r := range c.rounds {
		_, hasRequest := r.rawRequest[cell.Client]
		if c.Recorded() {
			return hasRequest
		}
		exts, hasResponse := r.rawResponse[cell.Upstream]
		if r.request == nil && !hasRequest || r.response == nil && !hasResponse && !r.refuses() {
			return false
		}
		if !hasResponse {
			continue
		}
		want := map[bool]string{true: "sse", false: "json"}[cell.Stream]
		if exts[want] == "" && exts["http"] == "" && exts["bytes"] == "" {
			return false
		}
	}
	return true
}

// expectsErrors reports whether the case has an error. Such cases run last, because a
// gateway may eject an upstream that has failed.
func (c *Case) expectsErrors() bool {
	for _, r := range c.rounds {
		if r.response != nil && (r.response.Err != nil || r.response.breaks != "") {
			return true
		}
		for _, exts := range r.rawResponse {
			if exts["http"] != "" || exts["bytes"] != "" {
				return true
			}
		}
		for _, s := range r.wantResponse {
			if s.Err != nil || s.breaks != "" {
				return true
			}
		}
	}
	return false
}
