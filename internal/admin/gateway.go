package admin

import (
	"context"
	"net/http"
	"time"
)

// whoView is the operator itself.
type whoView struct {
	Key  keyView  `json:"key"`
	Held string   `json:"held,omitempty" doc:"The organisation that the operator is held to. Absent: none."`
	May  []string `json:"may" nullable:"false" doc:"The operations that the operator may use."`
}

func (s *server) whoami(_ context.Context, c *call, _ *nothing) (*answer[whoView], error) {
	v := whoView{Key: viewKey(c.operator, s.Now()), Held: held(c.operator)}
	for _, r := range s.routes() {
		if permit(c.operator, r.op.OperationID) == nil {
			v.May = append(v.May, r.op.OperationID)
		}
	}
	return answered(v), nil
}

// Target is how one of those is who answer requests.
type Target struct {
	Target      string    `json:"target" doc:"provider/model, and the worker's address where workers are discovered."`
	Models      []string  `json:"models" nullable:"false" doc:"The names under which clients reach it."`
	State       string    `json:"state" doc:"In one word, as isogloss explain has it, such as up or ejected."`
	Why         string    `json:"why,omitempty" doc:"Why it is not asked."`
	Until       time.Time `json:"until,omitzero" doc:"When it will be asked again."`
	Open        int       `json:"open" doc:"Requests that it is answering."`
	Consecutive int       `json:"failures_in_a_row"`
	Succeeded   uint64    `json:"succeeded"`
	Failed      uint64    `json:"failed"`
	P50         float64   `json:"first_token_p50_seconds,omitzero"`
	P95         float64   `json:"first_token_p95_seconds,omitzero"`
}

type targetList struct {
	Targets []Target `json:"targets" nullable:"false"`
}

func (s *server) listTargets(context.Context, *call, *nothing) (*answer[targetList], error) {
	return answered(targetList{Targets: s.Targets.Targets()}), nil
}

// Configuration is what is served, without its secrets.
type Configuration struct {
	Path   string    `json:"path,omitempty" doc:"The file. Absent: none, all is default."`
	Loaded time.Time `json:"loaded" doc:"When it was read."`
	Text   string    `json:"text" doc:"The configuration in effect, one fact a line, defaults written out and without secrets."`
}

func (s *server) getConfig(context.Context, *call, *nothing) (*answer[Configuration], error) {
	return answered(s.Config.Effective()), nil
}

func (s *server) reloadConfig(ctx context.Context, c *call, _ *nothing) (*answer[Configuration], error) {
	before := s.Config.Effective()
	err := s.change(ctx, c, change{object: "config", before: before, anyway: true}, func(ctx context.Context) error {
		mistakes, err := s.Config.Reload(ctx)
		switch {
		case err != nil:
			p := problem(http.StatusServiceUnavailable, "config_unreadable", "the configuration cannot be read; the one before is still served. Look at the gateway's log")
			p.retry, p.cause = retryAfter, err
			return p
		case len(mistakes) > 0:
			p := problem(http.StatusUnprocessableEntity, "config_mistakes", "the configuration has mistakes and the one before is still served; mend them and reload again")
			p.Errors = mistakes
			return p
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answered(s.Config.Effective()), nil
}
