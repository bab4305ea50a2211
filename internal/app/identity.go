package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/api/agentapi"
	"github.com/isogloss-gateway/isogloss/internal/api/scim"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/people/identity"
	"github.com/isogloss-gateway/isogloss/llm"
)

// ExplainToken says which rule of the configuration admits the owner of a token, or why none does.
func (o Options) ExplainToken(ctx context.Context, token string) (string, error) {
	cfg, err := o.LoadConfig()
	if err != nil {
		return "", err
	}
	v, err := newVerifier(cfg.Identity)
	if err != nil {
		return "", err
	}
	if v == nil {
		return "", errors.New("the configuration has no identity provider; write identity.issuers")
	}
	if slices.ContainsFunc(cfg.Identity, func(i config.Issuer) bool { return i.SCIM != nil && i.SCIM.Groups != "" }) {
		s, err := store.Open(ctx, cfg.Store.URL.Reveal(), store.Options{})
		if err != nil {
			return "", err
		}
		defer func() { _ = s.Close() }() // nothing was written
		if err := awaitStore(ctx, s); err != nil {
			return "", err
		}
		v.Groups = storedGroups{s}
	}
	return v.Explain(ctx, strings.TrimSpace(token)), nil
}

// storedGroups implements identity.Groups without a running gateway.
type storedGroups struct{ store *store.Store }

// SCIMGroups reads the groups from the store.
func (s storedGroups) SCIMGroups(ctx context.Context, name string, _ *access.SCIMGroups) (*access.SCIMGroups, *llm.Error) {
	list, err := s.store.SCIMGroups(ctx, name)
	if err != nil {
		return nil, &llm.Error{Kind: llm.Overloaded, Message: "the store, which has the groups of SCIM, cannot be read", Cause: err}
	}
	return &access.SCIMGroups{List: list}, nil
}

// newVerifier returns the verifier of the configured identity providers, nil if there are none.
func newVerifier(issuers []config.Issuer) (*identity.Verifier, error) {
	if len(issuers) == 0 {
		return nil, nil
	}
	list := make([]identity.Issuer, len(issuers))
	for i, c := range issuers {
		list[i] = identity.Issuer{URL: c.URL, Audiences: c.Audiences, Clients: c.Clients, JWKS: c.JWKS, CA: c.CA, Name: c.Name}
		if s := c.SCIM; s != nil {
			list[i].SCIM = identity.SCIM{Claim: s.Claim, Attribute: s.Attribute, Required: s.Required, Groups: s.Groups}
		}
		for _, r := range c.Rules {
			rule, err := newRule(r)
			if err != nil {
				return nil, err
			}
			list[i].Rules = append(list[i].Rules, rule)
		}
	}
	v, err := identity.New(list)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return v, nil
}

func newRule(r config.IdentityRule) (identity.Rule, error) {
	g := identity.Grant{Org: r.Org, Team: r.Team, Models: r.Models, Criticality: r.Criticality, Role: access.Role(r.Role),
		Limit: quota.Limit{Requests: int64(r.Requests), Tokens: int64(r.Tokens), Concurrency: int64(r.Concurrency)}}
	all := make([]budget.Budget, len(r.Budgets))
	for i, b := range r.Budgets {
		amount, err := usage.ParseMoney(b.Amount)
		if err != nil {
			return identity.Rule{}, fmt.Errorf("identity: budget: %w", err)
		}
		all[i] = budget.Budget{Amount: amount, Window: b.Window}
	}
	if err := g.Limit.SetBudgets(all); err != nil {
		return identity.Rule{}, fmt.Errorf("identity: %w", err)
	}
	if r.Settings != "" {
		var err error
		if g.Settings, err = agentapi.ReadSettings(r.Settings); err != nil {
			return identity.Rule{}, fmt.Errorf("identity: %w", err)
		}
	}
	out := identity.Rule{Grant: g, RoleByGroups: r.RoleByGroups}
	for _, c := range r.When {
		out.When = append(out.When, identity.Condition{Claim: c.Name, Values: []string{c.Value}})
	}
	return out, nil
}

// scimIssuers returns the issuers that manage their people by SCIM.
func (c *current) scimIssuers() (list []scim.Issuer) {
	cfg, _ := c.config()
	for _, i := range cfg.Identity {
		if i.SCIM != nil {
			list = append(list, scim.Issuer{URL: i.URL, Path: i.SCIM.Path})
		}
	}
	return list
}
