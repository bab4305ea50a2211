package admin

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
)

// maxExplained is the largest body of a request to explain, which may contain images.
const maxExplained = 8 << 20

func (s *server) listModels(ctx context.Context, _ *call, _ *noInput) (*models.Listing, error) {
	return new(s.Targets.Models(ctx)), nil
}

type explainIn struct{ Body explainBody }

// explainBody is a request to explain. The request is a text, because it may have members that this API
// rejects.
type explainBody struct {
	Dialect string `json:"dialect" maxLength:"64" doc:"The client's dialect, by its name in the configuration."`
	Model   string `json:"model,omitempty" maxLength:"512" doc:"The model, if the request does not name it."`
	Request string `json:"request,omitempty" doc:"The body of the request, as text. Absent: only the model is explained."`
}

func (s *server) explainRoute() route {
	rt := handle("explain", http.MethodPost, "/explain", "Show which targets a request would try, why, and what each would lose and could cost; nothing is sent", s.explain)
	rt.MaxBody = maxExplained
	return rt
}

func (s *server) explain(_ context.Context, _ *call, in *explainIn) (*fleet.Explanation, error) {
	b, text := &in.Body, []byte(in.Body.Request)
	switch {
	case b.Request != "":
	case b.Model == "":
		return nil, invalid("body.model", "expected a model or a request")
	default:
		var err error
		if text, err = json.Marshal(map[string]string{"model": b.Model}); err != nil {
			return nil, err
		}
	}
	e, fault := s.Targets.Explain(b.Dialect, b.Model, text)
	if fault != nil {
		return nil, openapi.NewProblem(fault.HTTPStatus(), "not_explained", "%s", fault.Message)
	}
	return e, nil
}
