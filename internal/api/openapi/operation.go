package openapi

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// Operation is an HTTP operation, with a JSON result unless Media names other types.
type Operation struct {
	Name, Method, Path, Summary string

	Status  int      // of a successful response
	MaxBody int64    // bytes
	Media   []string // types of a result that has no schema; nil: it is JSON with the schema of its Go type
	More    []string // types that the result may also have, besides JSON

	in, out               reflect.Type
	params                []param
	body, result, problem *schema // body: nil if there is none
}

// For returns an operation with the input I and the result O. I is a struct: a field with the tag
// path or query is a parameter, and the field Body is the JSON body. Further tags (doc, enum, pattern,
// minimum, maxLength, …) are its schema. A path parameter that the path does not have stays empty, so that
// routes can share an input.
func For[I, O any](name, method, path, summary string) Operation {
	return Operation{Name: name, Method: method, Path: path, Summary: summary, Status: http.StatusOK, MaxBody: 64 << 10, in: reflect.TypeFor[I](), out: reflect.TypeFor[O]()}
}

// ForMedia returns an operation with the input I and a result of other media types than JSON with a
// schema.
func ForMedia[I any](name, method, path, summary string, media ...string) Operation {
	op := For[I, struct{}](name, method, path, summary)
	op.Media = media
	return op
}

// HasBody reports whether the operation reads a JSON body.
func (op *Operation) HasBody() bool { return op.body != nil }

// Describe prepares an operation that is in no document.
func (op *Operation) Describe() { op.describe(schemas{}) }

func (op *Operation) describe(all schemas) {
	op.params, op.body = all.describeInput(op.in)
	op.params = slices.DeleteFunc(op.params, func(p param) bool { return p.In == "path" && !strings.Contains(op.Path, "{"+p.Name+"}") })
	op.problem = all.of(reflect.TypeFor[Problem]())
	if op.Media == nil {
		op.result = all.of(op.out)
	}
}
