package access

import (
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Caller is an authenticated client. The zero Caller may use nothing.
type Caller struct {
	ID          string // identifies the caller without revealing the key
	Criticality string // highest criticality of its requests; empty: any, if no keys are configured
	Concurrency int    // max open requests; 0: the gateway's limit

	Key      string // id of the key; empty for keys of the configuration file
	Name     string // of the key, for people
	Person   string // name of the person whose account the key is; empty: it is none
	Own      string // id of the person's own key that was sent; Key is the person's account then
	Team     string
	Org      string
	Tenant   string          // whose data it may use: its organisation, or its key if that is in the file; empty without keys
	Accounts []quota.Account // accounts with a limit, the key's first; read-only

	// Claimed is the id in a key that was refused. Whether there is such a key is not known: Directory.Owner tells,
	// and must not be called before the response is sent, because its time would tell the client too.
	Claimed string

	unrestricted bool    // for keys of the configuration file
	scope        *Record // nil for keys of the configuration file
	narrow       *Record // the person's own key that was sent; nil: none
	begin        func(request, model string) *llm.Error
}

// Begin reports that a request with this id and model begins, if an operator runs it as this caller. An
// error refuses the request.
func (c Caller) Begin(request, model string) *llm.Error {
	if c.begin == nil {
		return nil
	}
	return c.begin(request, model)
}

// newCaller returns the caller of a key. It is built once per record, not per request.
func newCaller(r *Record) Caller {
	c := Caller{ID: r.ID, Criticality: r.Criticality, Concurrency: int(r.Limit.Concurrency), Key: r.ID, Name: r.Name, Team: r.Team, Org: r.Org, Tenant: "org:" + r.Org, scope: r}
	if c.Criticality == "" { // empty would allow any
		c.Criticality = "normal"
	}
	if IsPerson(r.ID) {
		c.Person = r.Name
	}
	c.Accounts = r.Accounts()
	return c
}

// Accounts returns the accounts of the key, its team and its organisation that have a limit.
func (r *Record) Accounts() []quota.Account {
	if r.Limit.IsZero() && r.TeamLimit.IsZero() && r.OrgLimit.IsZero() {
		return nil
	}
	all := r.Limit.Accounts(make([]quota.Account, 0, 3), "key:"+r.ID)
	all = r.TeamLimit.Accounts(all, "team:"+r.Org+"/"+r.Team)
	return r.OrgLimit.Accounts(all, "org:"+r.Org)
}

// May returns nil if the caller may use an endpoint with a model. The model is the name that the
// client sent, and is checked before it is looked up: a model outside the key's list gets the same
// response whether or not it exists, so that a key cannot be used to discover models.
func (c Caller) May(endpoint, model string) *llm.Error {
	if err := c.MayUse(endpoint); err != nil {
		return err
	}
	if !c.Sees(model) {
		return errModel()
	}
	return nil
}

// MayUse returns nil if the caller may use an endpoint that names no model.
func (c Caller) MayUse(endpoint string) *llm.Error {
	switch {
	case c.unrestricted:
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

// Sees reports whether the caller may use a model. Model lists contain only these.
func (c Caller) Sees(model string) bool {
	if c.unrestricted {
		return true
	}
	if c.scope == nil || model == "" {
		return false
	}
	return covers(c.scope.Models, model) && (c.narrow == nil || covers(c.narrow.Models, model))
}

// valid reports whether the role exists.
func (r Role) valid() bool {
	switch r {
	case Owner, Admin, Billing, Auditor, KeyManager:
		return true
	}
	return false
}

// Models returns the models that the caller may use, by name or prefix: those of the person's own key, if that was sent.
func (c Caller) Models() []string {
	switch {
	case c.narrow != nil:
		return c.narrow.Models
	case c.scope != nil:
		return c.scope.Models
	}
	return nil
}
