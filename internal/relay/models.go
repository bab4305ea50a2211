package relay

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// listModels is OpenAI's list of models. A pattern is listed as it is configured,
// so that its users can see what to write in place of the star.
func listModels(s *State) []byte {
	b := []byte(`{"object":"list","data":[`)
	for i, route := range s.Routes.Routes() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendModel(b, s, route, route.Name)
	}
	return append(b, "]}"...)
}

func appendModel(b []byte, s *State, r *route.Route, id string) []byte {
	b = appendQuote(append(b, `{"id":`...), id)
	b = append(b, `,"object":"model","created":`...)
	b = strconv.AppendInt(b, s.Created.Unix(), 10)
	b = appendQuote(append(b, `,"owned_by":`...), r.OwnedBy)
	return append(b, '}')
}

func appendQuote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the error is about invalid UTF-8, which is replaced
	return b
}

func (r *Relay) serveModel(s *State, w http.ResponseWriter, id string) {
	m, ok := s.Routes.Find(id)
	if !ok {
		r.refuse(w, noSuchModel(id))
		return
	}
	writeJSON(w, http.StatusOK, appendModel(nil, s, m.Route, id))
}

func noSuchModel(name string) *llm.Error {
	return &llm.Error{Kind: llm.NotFound, Code: "model_not_found", Param: "model",
		Message: "the model '" + printable(name) + "' does not exist here; GET /v1/models lists those that do"}
}

// listForDynamo is the list that Dynamo's first releases served beside OpenAI's.
func listForDynamo(s *State) []byte {
	b := []byte(`{"chat_completion_models":`)
	names := appendNames(nil, s)
	b = append(b, names...)
	b = append(b, `,"completion_models":`...)
	b = append(b, names...)
	return append(b, '}')
}

func appendNames(b []byte, s *State) []byte {
	b = append(b, '[')
	for i, route := range s.Routes.Routes() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuote(b, route.Name)
	}
	return append(b, ']')
}
