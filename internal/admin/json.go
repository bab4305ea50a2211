package admin

import (
	"io"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
)

// strict is JSON as it is read and written here. Members that stand twice, that are
// not known or that are written in another case are refused: encoding/json would take
// the last of them, and what was checked would not be what is used. The library
// validates before it decodes and folds case there, but all that it lets through is
// decoded by this format.
var strict = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		return json.MarshalWrite(w, v, json.Deterministic(true))
	},
	Unmarshal: func(data []byte, v any) error {
		return json.Unmarshal(data, v, json.RejectUnknownMembers(true))
	},
}

// problemResponse describes every answer but the good one.
func problemResponse(api huma.API) *huma.Response {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	return &huma.Response{
		Description: "What went wrong, and what to do about it",
		Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: schema}},
	}
}
