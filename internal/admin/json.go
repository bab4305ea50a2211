package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
		if err := refuseNull(data); err != nil {
			return err
		}
		return json.Unmarshal(data, v, json.RejectUnknownMembers(true))
	},
}

// refuseNull refuses null, which no member takes. The library would take it for a
// member that was left out, and who writes "expires": null means something else.
func refuseNull(data []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		t, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case t.Kind() == jsontext.KindNull:
			return fmt.Errorf("null is not taken (%s); leave the member out, or send a value", d.StackPointer())
		}
	}
}

// problemResponse describes every answer but the good one.
func problemResponse(api huma.API) *huma.Response {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	return &huma.Response{
		Description: "What went wrong, and what to do about it",
		Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: schema}},
	}
}
