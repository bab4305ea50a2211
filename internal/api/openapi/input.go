package openapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const bodyTimeout = 15 * time.Second

// param is a path or query parameter.
type param struct {
	In          string  `json:"in"`
	Name        string  `json:"name"`
	Description string  `json:"description,omitempty"`
	Explode     *bool   `json:"explode,omitzero"` // false for query parameters: lists are separated by commas
	Required    bool    `json:"required,omitzero"`
	Schema      *schema `json:"schema"`

	index []int // of the field
}

// describeInput returns the parameters of an input and the schema of its body, nil if it has none.
func (c schemas) describeInput(t reflect.Type) (params []param, body *schema) {
	for _, f := range reflect.VisibleFields(t) {
		p := param{index: f.Index}
		if f.Name == "Body" {
			body = c.of(f.Type)
			continue
		} else if name, ok := f.Tag.Lookup("path"); ok {
			p.In, p.Name, p.Required = "path", name, true
		} else if name, ok := f.Tag.Lookup("query"); ok {
			p.In, p.Name, p.Explode = "query", name, new(false)
		} else {
			continue
		}
		p.Schema = c.field(f)
		p.Description = p.Schema.Description
		params = append(params, p)
	}
	return params, body
}

// Read fills an input, a pointer to a struct of the operation's input type, from a request.
func (op *Operation) Read(w http.ResponseWriter, r *http.Request, input any) *Problem {
	in := reflect.ValueOf(input).Elem()
	query := r.URL.Query()
	var mistakes []Mistake
	for i := range op.params {
		p := &op.params[i]
		text := query.Get(p.Name)
		if p.In == "path" {
			text = r.PathValue(p.Name)
		}
		delete(query, p.Name)
		mistakes = append(mistakes, p.read(text, in.FieldByIndex(p.index))...)
	}
	for name := range query {
		mistakes = append(mistakes, Mistake{Location: "query." + name, Message: "unexpected parameter"})
	}
	if op.body != nil {
		wrong, p := op.readBody(w, r, in.FieldByName("Body"))
		if p != nil {
			return p
		}
		mistakes = append(mistakes, wrong...)
	}
	if len(mistakes) > 0 {
		slices.SortFunc(mistakes, func(a, b Mistake) int { return strings.Compare(a.Location, b.Location) })
		return InvalidInput(mistakes...)
	}
	return nil
}

// read converts the text of a parameter, validates it and stores it in its field.
func (p *param) read(text string, to reflect.Value) []Mistake {
	if text == "" && p.Schema.Default != nil {
		text = strconv.FormatInt(*p.Schema.Default, 10)
	}
	if text == "" && !p.Required {
		return nil
	}
	at := p.In + "." + p.Name
	if strings.ContainsFunc(text, unicode.IsControl) || !utf8.ValidString(text) {
		return []Mistake{{Location: at, Message: "expected text without control characters"}}
	}
	var value any = text
	switch {
	case p.Schema.Type == "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return []Mistake{{Location: at, Message: "expected integer"}}
		}
		to.SetInt(n)
		value = float64(n)
	case p.Schema.Type == "array":
		var items []any
		for item := range strings.SplitSeq(text, ",") {
			items = append(items, item)
			to.Set(reflect.Append(to, reflect.ValueOf(item).Convert(to.Type().Elem())))
		}
		value = items
	case p.Schema.Format == "date-time":
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return []Mistake{{Location: at, Message: "expected a time as in RFC 3339, such as 2030-01-31T00:00:00Z"}}
		}
		to.Set(reflect.ValueOf(t))
	default:
		to.SetString(text)
	}
	return p.Schema.validate(value, at)
}

// readBody reads a JSON body. It rejects members that are unknown, occur twice or differ in case, and
// null.
func (op *Operation) readBody(w http.ResponseWriter, r *http.Request, to reflect.Value) ([]Mistake, *Problem) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // a writer without a connection has no deadline
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, op.MaxBody))
	if err == nil { // otherwise the server would wait for the rest of the body
		_ = conn.SetReadDeadline(time.Time{})
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, NewProblem(http.StatusRequestEntityTooLarge, "too_large", "the body is larger than %d bytes; send less at once", op.MaxBody)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, NewProblem(http.StatusRequestTimeout, "too_slow", "the body did not arrive within %v; send it again", bodyTimeout)
	case err != nil:
		return nil, badJSON("the body ended early")
	}
	if p := rejectNull(data); p != nil {
		return nil, p
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, syntaxProblem(err)
	}
	if mistakes := op.body.validate(value, "body"); len(mistakes) > 0 {
		return mistakes, nil
	}
	if err := json.Unmarshal(data, to.Addr().Interface(), json.RejectUnknownMembers(true)); err != nil {
		return []Mistake{{Location: "body", Message: "expected other types"}}, nil //nolint:nilerr // the mistake reports it, without quoting the body
	}
	return nil, nil
}

// rejectNull rejects null anywhere in a body: decoding would treat it as an absent member, and a client
// that sends "expires": null means something else.
func rejectNull(data []byte) *Problem {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		t, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return syntaxProblem(err)
		case t.Kind() == jsontext.KindNull:
			return badJSON("null is not a value here (%s); leave the member out", d.StackPointer())
		}
	}
}

// syntaxProblem describes a JSON syntax error by its position, without quoting the body.
func syntaxProblem(err error) *Problem {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &s):
		return badJSON("the member %s occurs twice", s.JSONPointer)
	case errors.As(err, &s):
		return badJSON("the body is not valid JSON at byte %d", s.ByteOffset)
	}
	return badJSON("the body is not valid JSON")
}
