package admin

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// object is a JSON object of the OpenAPI document.
type object map[string]any

// document returns the OpenAPI document of the routes.
func document(version string, routes []route, all schemas) ([]byte, error) {
	paths := map[string]object{}
	for _, rt := range routes {
		op := object{
			"operationId": rt.name, "summary": rt.summary,
			"responses": object{
				strconv.Itoa(rt.status): response(http.StatusText(rt.status), "application/json", rt.result),
				"default":               response("What went wrong, and what to do about it", "application/problem+json", rt.problem),
			},
		}
		if rt.params != nil {
			op["parameters"] = rt.params
		}
		if rt.body != nil {
			op["requestBody"] = object{"required": true, "content": content("application/json", rt.body)}
		}
		if paths[rt.path] == nil {
			paths[rt.path] = object{}
		}
		paths[rt.path][strings.ToLower(rt.method)] = op
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Isogloss admin API", "version": version,
			"description": "Keys, teams, organisations, usage, targets, configuration and audit of an Isogloss gateway. Every path needs an operator's key.",
		},
		"security": []object{{"operator": []string{}}},
		"paths":    paths,
		"components": object{
			"schemas":         all,
			"securitySchemes": object{"operator": object{"type": "http", "scheme": "bearer", "description": "An operator's key: gw_admin_…"}},
		},
	}, json.Deterministic(true))
}

func response(description, mediaType string, s *schema) object {
	return object{"description": description, "content": content(mediaType, s)}
}

func content(mediaType string, s *schema) object { return object{mediaType: object{"schema": s}} }
