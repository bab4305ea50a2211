package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
)

// whoView describes the operator.
type whoView struct {
	Key  keyView  `json:"key"`
	Held string   `json:"held,omitempty" doc:"The organisation that the operator is bound to. Absent: none."`
	May  []string `json:"may" doc:"The operations that the operator may use."`

	ClientURL string    `json:"client_url,omitempty" doc:"Base URL of the client port, as this gateway knows it. An unspecified address, such as 0.0.0.0, is every address of the node."`
	Captures  []Capture `json:"captures,omitempty" doc:"Commands (isogloss capture) that get the text of exchanges on this node at present. Operators that are bound to an organisation see no filters."`
}

func (s *server) whoami(_ context.Context, c *call, _ *noInput) (*whoView, error) {
	v := whoView{Key: viewKey(c.operator, s.Now()), Held: boundTo(c.operator), ClientURL: s.ClientURL}
	for _, r := range s.routes {
		if Permit(c.operator, r.Name) == nil {
			v.May = append(v.May, r.Name)
		}
	}
	if s.Captures != nil {
		v.Captures = s.Captures()
	}
	for i, x := range v.Captures {
		if v.Held != "" {
			v.Captures[i] = Capture{Since: x.Since, User: x.User}
		}
	}
	return new(v), nil
}

// Target is the state of a target.
type Target struct {
	Target string   `json:"target" doc:"provider/model, and its address."`
	Models []string `json:"models" doc:"The model names that route to it."`
	fleet.TargetState
	Waiting     int     `json:"waiting" doc:"Requests that wait until it may have more."`
	Limit       int     `json:"limit" doc:"Open requests that it may have now. 0: no limit."`
	Consecutive int     `json:"failures_in_a_row"`
	Succeeded   uint64  `json:"succeeded"`
	Failed      uint64  `json:"failed"`
	P50         float64 `json:"first_token_p50_seconds,omitzero"`
	P95         float64 `json:"first_token_p95_seconds,omitzero"`
}

type targetList struct {
	Targets []Target `json:"targets"`
}

func (s *server) listTargets(context.Context, *call, *noInput) (*targetList, error) {
	return new(targetList{Targets: s.Targets.Targets()}), nil
}

// Configuration is the configuration in effect, without secrets.
type Configuration struct {
	Path   string    `json:"path,omitempty" doc:"The configuration file. Absent: none, all settings have their defaults."`
	Loaded time.Time `json:"loaded" doc:"When it was read."`
	Text   string    `json:"text" doc:"The configuration in effect, one setting per line with its key, including defaults and those of presets, without secrets."`
	// Settings are those of the file and the defaults of those that it does not have.
	Settings []Setting `json:"settings" doc:"The settings and where each comes from, without secrets. Defaults that are empty are left out."`
	Cut      bool      `json:"settings_cut,omitzero" doc:"There are more than 2,000 settings."`
	Refused  *Refusal  `json:"refused,omitempty" doc:"The last reload, if it was refused."`
}

// Setting is one setting of the configuration.
type Setting struct {
	Key    string `json:"key" doc:"Such as providers.main.base_url."`
	Value  string `json:"value" doc:"As it is written, without secrets."`
	Line   int    `json:"line,omitzero" doc:"Line of the file. Absent: the file does not set it."`
	Source string `json:"source,omitempty" doc:"The environment variable or flag that sets it."`
}

// Refusal is a reload that was refused.
type Refusal struct {
	At     time.Time         `json:"at"`
	Errors []openapi.Mistake `json:"errors"`
}

func (s *server) getConfig(context.Context, *call, *noInput) (*Configuration, error) {
	return new(s.Config.Effective()), nil
}

func (s *server) reloadConfig(ctx context.Context, c *call, _ *noInput) (*Configuration, error) {
	before := s.Config.Effective()
	err := s.change(ctx, c, change{object: "config", before: before, withoutAudit: true}, func(ctx context.Context) error {
		mistakes, err := s.Config.Reload(ctx)
		switch {
		case err != nil:
			p := openapi.NewProblem(http.StatusServiceUnavailable, "config_unreadable", "the configuration cannot be read; the previous one stays in effect. See the gateway's log")
			p.Retry, p.Cause = retryAfter, err
			return p
		case len(mistakes) > 0:
			p := openapi.NewProblem(http.StatusUnprocessableEntity, "config_mistakes", "the configuration has mistakes; the previous one stays in effect. Fix them and reload again")
			p.Errors = mistakes
			return p
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return new(s.Config.Effective()), nil
}

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
