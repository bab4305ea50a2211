package gemini

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// vertexEnvelope is the protocol on Vertex AI: the same bodies and streams, below the path of
// a project. ParsePath reads such paths of clients.
func vertexEnvelope() *codec.Envelope { return &codec.Envelope{Name: "vertex", Wrap: wrapVertex} }

// vertexBeta is Vertex's name of all versions but v1.
const vertexBeta = "v1beta1"

func wrapVertex(out *protocol.Outgoing, place codec.Place, _ *llm.Report) *llm.Error {
	path, query, _ := strings.Cut(out.Path, "?")
	a, found, err := ParsePath(http.MethodPost, path)
	if err != nil {
		return err
	}
	if !found {
		return notFound("Vertex AI does not have this path")
	}
	model, err := codec.ModelSegment(place.Model, "-._@")
	if err != nil {
		return err
	}
	if a.Version != "v1" {
		a.Version = vertexBeta
	}
	if a.Verb == CountTokens {
		if out.Body, err = countBody(out.Body); err != nil {
			return err
		}
	}
	out.Path = "/" + a.Version + "/projects/" + url.PathEscape(place.Project) + "/locations/" + url.PathEscape(place.Location) + "/publishers/google/models/" + model + ":" + a.Verb
	if query != "" {
		out.Path += "?" + query
	}
	return nil
}

// countBody returns the body of a token count for Vertex: without the object around the
// request, which only the Gemini API has, and without the model, which has another name on
// Vertex.
func countBody(body []byte) ([]byte, *llm.Error) {
	x, err := wire.IndexObject(body)
	if err != nil {
		return nil, codec.InvalidBody(err)
	}
	if inner := x.Raw("generateContentRequest"); inner.Kind() == '{' {
		body = inner
		if x, err = wire.IndexObject(body); err != nil {
			return nil, codec.InvalidBody(err)
		}
	}
	if e, ok := x.Remove("model"); ok {
		body = wire.Patch(body, []wire.Edit{e})
	}
	return body, nil
}
