package relay

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// modelList is how a dialect lists models. A pattern is listed as it is
// configured, so that its users can see what to write in place of the star.
type modelList struct {
	before string
	one    func(b []byte, s *State, r *route.Route, id string) []byte
	after  func(b []byte, all []*route.Route) []byte
}

var openAIList = modelList{`{"object":"list","data":[`, appendOpenAIModel, appendEnd}

var modelLists = map[protocol.Name]modelList{
	protocol.OpenAIChat:      openAIList,
	protocol.OpenAIResponses: openAIList,
	protocol.Anthropic:       {`{"data":[`, appendAnthropicModel, appendPage},
	protocol.Gemini:          {`{"models":[`, appendGeminiModel, appendEnd},
}

// visible are the routes that a caller may use. A key that opens a part of a
// pattern sees the pattern.
func (s *State) visible(caller access.Caller) []*route.Route {
	all := s.Routes.Routes()
	if caller.Sees(everyModel) {
		return all
	}
	var out []*route.Route
	for _, r := range all {
		if caller.Sees(r.Name) || r.Pattern() && caller.SeesWithin(strings.TrimSuffix(r.Name, "*")) {
			out = append(out, r)
		}
	}
	return out
}

func (l modelList) list(s *State, routes []*route.Route) []byte {
	b := []byte(l.before)
	for i, r := range routes {
		if i > 0 {
			b = append(b, ',')
		}
		b = l.one(b, s, r, r.Name)
	}
	return l.after(b, routes)
}

func appendEnd(b []byte, _ []*route.Route) []byte { return append(b, "]}"...) }

// appendPage ends a list that claims to be one page of several.
func appendPage(b []byte, all []*route.Route) []byte {
	if len(all) == 0 {
		return append(b, `],"has_more":false,"first_id":null,"last_id":null}`...)
	}
	b = appendQuote(append(b, `],"has_more":false,"first_id":`...), all[0].Name)
	b = appendQuote(append(b, `,"last_id":`...), all[len(all)-1].Name)
	return append(b, '}')
}

func appendOpenAIModel(b []byte, s *State, r *route.Route, id string) []byte {
	b = appendQuote(append(b, `{"id":`...), id)
	b = append(b, `,"object":"model","created":`...)
	b = strconv.AppendInt(b, s.Created.Unix(), 10)
	b = appendQuote(append(b, `,"owned_by":`...), r.OwnedBy)
	return append(b, '}')
}

func appendAnthropicModel(b []byte, s *State, _ *route.Route, id string) []byte {
	b = appendQuote(append(b, `{"type":"model","id":`...), id)
	b = appendQuote(append(b, `,"display_name":`...), id)
	b = appendQuote(append(b, `,"created_at":`...), s.Created.UTC().Format(time.RFC3339))
	return append(b, '}')
}

func appendGeminiModel(b []byte, _ *State, _ *route.Route, id string) []byte {
	b = appendQuote(append(b, `{"name":`...), "models/"+id)
	b = appendQuote(append(b, `,"displayName":`...), id)
	return append(b, `,"supportedGenerationMethods":["generateContent","streamGenerateContent"]}`...)
}

func appendQuote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the error is about invalid UTF-8, which is replaced
	return b
}

func (r *Relay) serveModel(s *State, w http.ResponseWriter, dialect protocol.Name, caller access.Caller, id string) {
	m, ok := s.Routes.Find(id)
	if !ok || !caller.Sees(id) {
		r.refuse(w, dialect, noSuchModel(id))
		return
	}
	writeJSON(w, http.StatusOK, modelLists[dialect].one(nil, s, m.Route, id))
}

func noSuchModel(name string) *llm.Error {
	return &llm.Error{Kind: llm.NotFound, Code: "model_not_found", Param: "model",
		Message: "the model '" + printable(name) + "' does not exist here; GET /v1/models lists those that do"}
}

// listForDynamo is the list that Dynamo's first releases served beside OpenAI's.
func listForDynamo(routes []*route.Route) []byte {
	b := []byte(`{"chat_completion_models":`)
	names := appendNames(nil, routes)
	b = append(b, names...)
	b = append(b, `,"completion_models":`...)
	b = append(b, names...)
	return append(b, '}')
}

func appendNames(b []byte, routes []*route.Route) []byte {
	b = append(b, '[')
	for i, route := range routes {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuote(b, route.Name)
	}
	return append(b, ']')
}
