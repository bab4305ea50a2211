package openai

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// The paths of clients that are configured for Azure: a deployment's, and those that belong to
// no deployment.
const (
	azurePath        = "/openai/"
	azureDeployments = "/openai/deployments/"
)

// LocateAzure returns the function that finds the routes of clients that are configured for
// Azure. A deployment in the path is a model of the gateway.
func LocateAzure(routes []codec.Route) func(*http.Request) (codec.Location, bool, *llm.Error) {
	envelope := &codec.Envelope{Name: "azure", Open: openAzure}
	return func(req *http.Request) (codec.Location, bool, *llm.Error) {
		path := req.URL.EscapedPath()
		at := codec.Location{Envelope: envelope}
		rest, found := strings.CutPrefix(path, azureDeployments)
		if found {
			var model string
			model, rest, _ = strings.Cut(rest, "/")
			if at.Model, _ = url.PathUnescape(model); at.Model == "" { // also if it is not valid
				return codec.Location{}, false, nil
			}
		} else if rest, found = strings.CutPrefix(path, azurePath); !found {
			return codec.Location{}, false, nil
		}
		for i := range routes {
			if r := &routes[i]; r.Path == "/v1/"+rest && r.Operation != codec.ListModels {
				at.Route, at.URLPath = r, r.Path
				return at, true, nil
			}
		}
		return codec.Location{}, false, nil
	}
}

// openAzure makes the deployment of the path the model of the body. Azure ignores the member;
// SDKs send the same name in both.
func openAzure(at codec.Location, body []byte) ([]byte, http.Header, *llm.Error) {
	if at.Model == "" {
		return body, nil, nil
	}
	x, err := wire.IndexObject(body, "model")
	if err != nil {
		return nil, nil, codec.InvalidBody(err)
	}
	if wire.Unquote(x.Raw("model")) == at.Model {
		return body, nil, nil
	}
	return wire.Patch(body, []wire.Edit{x.Set("model", wire.Quote(at.Model))}), nil, nil
}
