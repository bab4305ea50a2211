package access

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Caller is who sends a request. The zero Caller may nothing.
type Caller struct {
	ID          string // tells one caller from another, and not their keys
	Criticality string // empty where no keys are configured: anything may be said
	Concurrency int    // open requests; 0 is the gateway's own limit

	Key      string // id of the key; empty for keys of the configuration file
	Team     string
	Org      string
	Accounts []quota.Account // those that have a limit, the key's first; not to be changed

	everything bool    // keys of the configuration file have no scope
	scope      *Record // nil for those
}

// newCaller is the holder of a key. It is made once for a record and not for each
// request.
func newCaller(r *Record) Caller {
	c := Caller{ID: r.ID, Criticality: r.Criticality, Concurrency: int(r.Limit.Concurrency), Key: r.ID, Team: r.Team, Org: r.Org, scope: r}
	if c.Criticality == "" { // an empty one would be taken for a gateway without keys
		c.Criticality = "normal"
	}
	c.Accounts = r.Accounts()
	return c
}

// Accounts are those of the key, its team and its organisation that have a limit.
func (r *Record) Accounts() []quota.Account {
	var out []quota.Account
	for _, a := range []quota.Account{{ID: "key:" + r.ID, Limit: r.Limit}, {ID: "team:" + r.Org + "/" + r.Team, Limit: r.TeamLimit}, {ID: "org:" + r.Org, Limit: r.OrgLimit}} {
		if !a.Limit.IsZero() {
			out = append(out, a)
		}
	}
	return out
}

// May says whether the caller may use an endpoint with a model; nil is yes. The
// model is the name that the client sent, and it is asked before that name is looked
// up: a name outside the key's list is then answered alike whether there is such a
// model or not, so that a key cannot be used to find out what else is served, and
// its holder still reads what is wrong.
func (c Caller) May(endpoint, model string) *llm.Error {
	if err := c.MayUse(endpoint); err != nil {
		return err
	}
	if !c.Sees(model) {
		return errModel()
	}
	return nil
}

// MayUse says whether the caller may use an endpoint that names no model.
func (c Caller) MayUse(endpoint string) *llm.Error {
	switch {
	case c.everything:
		return nil
	case c.scope == nil || endpoint == "":
		return errEndpoint()
	case len(c.scope.Endpoints) == 0:
		return nil
	}
	for _, e := range c.scope.Endpoints {
		if e == endpoint {
			return nil
		}
	}
	return errEndpoint()
}

// Sees reports whether a model is one of the caller's. Lists of models show these
// and no others.
func (c Caller) Sees(model string) bool {
	if c.everything {
		return true
	}
	if c.scope == nil || model == "" {
		return false
	}
	for _, m := range c.scope.Models {
		if begin, open := strings.CutSuffix(m, "*"); model == m || open && strings.HasPrefix(model, begin) {
			return true
		}
	}
	return false
}

// valid reports whether a role is one that exists.
func (r Role) valid() bool {
	switch r {
	case Owner, Admin, Billing, Auditor, KeyManager:
		return true
	}
	return false
}
