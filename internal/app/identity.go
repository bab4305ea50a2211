package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/api/agentapi"
	"github.com/isogloss-gateway/isogloss/internal/api/scim"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
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
	if slices.ContainsFunc(cfg.Identity, func(i identity.Issuer) bool { return i.SCIM.Groups != "" }) {
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
func newVerifier(issuers []identity.Issuer) (*identity.Verifier, error) {
	if len(issuers) == 0 {
		return nil, nil
	}
	list := slices.Clone(issuers)
	for i := range list {
		list[i].Rules = slices.Clone(list[i].Rules)
		for j := range list[i].Rules {
			r := &list[i].Rules[j]
			if r.SettingsFile == "" {
				continue
			}
			text, err := agentapi.ReadSettings(r.SettingsFile)
			if err != nil {
				return nil, fmt.Errorf("identity: %w", err)
			}
			r.Grant.Settings = text
		}
	}
	v, err := identity.New(list)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return v, nil
}

// scimIssuers returns the issuers that manage their people by SCIM.
func (c *current) scimIssuers() (list []scim.Issuer) {
	cfg, _ := c.config()
	for _, i := range cfg.Identity {
		if i.SCIM.Claim != "" {
			list = append(list, scim.Issuer{URL: i.URL, Path: i.SCIM.Path})
		}
	}
	return list
}
