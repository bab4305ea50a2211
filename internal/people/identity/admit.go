package identity

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Groups has the SCIM groups of people.
type Groups interface {
	// SCIMGroups returns the groups of the person with a SCIM name. It returns known, which may be nil, if
	// nothing has changed since it returned that.
	SCIMGroups(ctx context.Context, name string, known *access.SCIMGroups) (*access.SCIMGroups, *llm.Error)
}

// admission is whom a token admits.
type admission struct {
	person *access.Person
	token  *verified          // nil: the issuer uses no SCIM groups
	groups *access.SCIMGroups // with which the rules were compared
}

// verified is what a verified token says.
type verified struct {
	issuer          *issuer
	claims          claims
	subject         string
	scim            string // name of the SCIM user; empty: the issuer does not use SCIM
	issued, expires time.Time
	revocation      string
}

// admit returns whom a token admits. known is the last admission of the token, which it returns if its
// owner's groups have not changed; nil: the token is to be verified.
func (v *Verifier) admit(ctx context.Context, token string, known *admission) (*admission, *llm.Error) {
	if known != nil && known.token == nil {
		return known, nil
	}
	var t *verified
	var groups, last *access.SCIMGroups
	var fault *llm.Error
	if known != nil {
		t, last = known.token, known.groups
	} else if t, fault = v.verify(ctx, token); fault != nil {
		return nil, fault
	}
	i := t.issuer
	usesGroups := i.SCIM.Groups != "" && v.Groups != nil && t.scim != ""
	if usesGroups {
		if groups, fault = v.Groups.SCIMGroups(ctx, t.scim, last); fault != nil {
			return nil, fault
		}
		if known != nil && groups == last {
			return known, nil
		}
	}
	p, fault := i.admit(t, groups)
	if fault != nil {
		return nil, fault
	}
	if !usesGroups {
		return &admission{person: p}, nil
	}
	if known == nil {
		t.claims = t.claims.only(i.Rules, i.Name)
	}
	return &admission{p, t, groups}, nil
}

// admit finds the first rule that matches a token and the groups of its owner, and returns the
// person whom it admits.
func (i *issuer) admit(t *verified, groups *access.SCIMGroups) (*access.Person, *llm.Error) {
	m := i.match(t.claims, groups)
	switch {
	case m == nil:
		return nil, &llm.Error{Kind: llm.Permission, Code: "not_admitted",
			Message: "the token is valid, but no rule of the gateway admits its owner; ask the gateway's operator"}
	case i.SCIM.Claim != "" && t.scim == "":
		return nil, &llm.Error{Kind: llm.Permission, Code: "not_admitted",
			Message: "the token is valid, but has no text in the claim by which the gateway knows whether its owner was removed; ask the gateway's operator"}
	}
	p := i.person(t, m)
	p.Issued, p.Revocation, p.Groups, p.ByGroups = t.issued, t.revocation, groups, m.byGroups
	return p, nil
}

func (i *issuer) person(t *verified, m *matched) *access.Person {
	g := &m.rule.Grant
	name := ""
	if i.Name != "" {
		name = plain.Short(t.claims.text(i.Name), maxName)
	}
	p := access.NewPerson(access.Record{
		SCIMName: t.scim, SCIMRequired: i.SCIM.Required,
		ID: access.PersonID(g.Org, i.URL, t.subject), Name: name, Org: g.Org, Team: g.Team,
		Models: g.Models, Endpoints: g.Endpoints, Criticality: g.Criticality, Limit: g.Limit,
	}, g.Role, g.describe(m.why), t.expires)
	p.Settings, p.OwnKeys = g.Settings, g.OwnKeys
	return p
}
