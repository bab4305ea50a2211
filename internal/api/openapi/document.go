package openapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// object is a JSON object of the OpenAPI document.
type object map[string]any

// Info describes an API.
type Info struct{ Title, Version, Description string }

// Document describes the operations, so that they can read requests, and returns their OpenAPI
// document. Every operation needs a bearer token, which token describes.
func Document(info Info, token string, operations ...*Operation) ([]byte, error) {
	paths, all := map[string]object{}, schemas{}
	for _, op := range operations {
		op.describe(all)
		entry := object{
			"operationId": op.Name, "summary": op.Summary,
			"responses": object{
				strconv.Itoa(op.Status): object{"description": http.StatusText(op.Status), "content": op.resultContent()},
				"default":               object{"description": "What went wrong, and what to do about it", "content": content("application/problem+json", op.problem)},
			},
		}
		if op.params != nil {
			entry["parameters"] = op.params
		}
		if op.body != nil {
			entry["requestBody"] = object{"required": true, "content": content("application/json", op.body)}
		}
		if paths[op.Path] == nil {
			paths[op.Path] = object{}
		}
		paths[op.Path][strings.ToLower(op.Method)] = entry
	}
	return json.Marshal(object{
		"openapi":  "3.1.0",
		"info":     object{"title": info.Title, "version": info.Version, "description": info.Description},
		"security": []object{{"operator": []string{}}},
		"paths":    paths,
		"components": object{
			"schemas":         all,
			"securitySchemes": object{"operator": object{"type": "http", "scheme": "bearer", "description": token}},
		},
	}, json.Deterministic(true))
}

// resultContent describes the result by its media types.
func (op *Operation) resultContent() object {
	all := object{}
	if op.Media == nil {
		all = content("application/json", op.result)
	}
	for _, mediaType := range slices.Concat(op.Media, op.More) {
		all[mediaType] = object{}
	}
	return all
}

func content(mediaType string, s *schema) object { return object{mediaType: object{"schema": s}} }
