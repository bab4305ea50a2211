package admin

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
)

// TestExplain checks that a request is explained by its text, or by the name of a model.
func TestExplain(t *testing.T) {
	w := newWorld(t).serve()
	auditor := w.operator(access.Auditor, "")
	large := `{"dialect":"d","request":"{\"model\":\"m\",\"n\":null,\"text\":\"` + strings.Repeat("x", 128<<10) + `\"}"}`
	for _, body := range []string{`{"dialect":"d","model":"m"}`, `{"dialect":"d","request":"{\"model\":\"m\"}"}`, large} {
		e := read[fleet.Explanation](t, w.send(auditor, "POST", "/api/v1/explain", body), 200)
		if e.Model != "m" || e.Dialect != "d" || string(e.Params) != `{"defaults":{}}` || len(e.Targets) != 1 || e.Targets[0].MaxCost != "0.5" || e.Targets[0].State != "ready" {
			t.Errorf("%+v", e)
		}
	}
	w.refusal(w.send(auditor, "POST", "/api/v1/explain", `{"dialect":"d"}`), 422, "invalid")
	w.refusal(w.send(auditor, "POST", "/api/v1/explain", `{"dialect":"d","model":"other"}`), 404, "not_explained")
	w.refusal(w.send(auditor, "POST", "/api/v1/explain", `{"dialect":"d","request":"{"}`), 404, "not_explained")
	w.refusal(w.send(auditor, "POST", "/api/v1/explain", `{"dialect":"d","request":"`+strings.Repeat("x", maxExplained)+`"}`), 413, "too_large")
	answer := w.send(auditor, "GET", "/api/v1/models", "")
	if strings.Contains(answer.body, "context_window") { // what is not known is absent
		t.Error(answer.body)
	}
	list := read[models.Listing](t, answer, 200)
	if len(list.Models) != 1 || list.Models[0].Balance != "order" || list.Models[0].Targets[0].State != "ready" || list.Models[0].Targets[0].Open != 2 {
		t.Errorf("%+v", list)
	}
}
