package config

import (
	"cmp"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Issuer is an identity provider whose tokens are accepted.
type Issuer struct {
	URL       string
	Audiences []string
	Clients   []string
	JWKS      string // URL or file; empty: from discovery
	CA        string // file
	Name      string // claim
	SCIM      *SCIM  // nil: off
	Rules     []IdentityRule
}

// SCIM is how an identity provider manages its people.
type SCIM struct {
	Path      string // of the endpoints
	Claim     string // of a token
	Attribute string // of the SCIM user that the claim names
	Required  bool   // people without a SCIM user are refused
	Groups    string // attribute of a SCIM group that rules read; empty: none
}

// IdentityRule admits the people whose claims match.
type IdentityRule struct {
	When        []Claim
	Org, Team   string
	Models      []string
	Criticality string
	Requests    int
	Tokens      int
	Concurrency int
	Budgets     []Budget
	Role        string
	// RoleByGroups says that SCIM groups may give the role.
	RoleByGroups bool
	Settings     string // file; empty: none
}

// Budget is an amount of dollars per window. A window of 0 is all time.
type Budget struct {
	Amount string
	Window time.Duration
}

// Claim is a claim with the value that it must have.
type Claim struct{ Name, Value string }

func (f *identityFile) resolve(store bool) (issuers []Issuer) {
	seen, paths := map[string]bool{}, map[string]bool{}
	for i := range f.Issuers {
		raw := &f.Issuers[i]
		raw.check()
		if seen[raw.Issuer] {
			raw.Wrong("issuer", "is the same issuer as one before it; write their rules in one list")
		}
		seen[raw.Issuer] = true
		out := Issuer{URL: raw.Issuer, Audiences: raw.Audiences, Clients: raw.Clients, JWKS: raw.JWKS, CA: raw.Path(raw.CA), Name: raw.Name}
		if out.JWKS != "" && !strings.Contains(out.JWKS, "://") {
			out.JWKS = raw.Path(out.JWKS)
		}
		if raw.Has("scim") {
			out.SCIM = raw.SCIM.resolve(store, paths)
		}
		for j := range raw.Rules {
			rule := &raw.Rules[j]
			if rule.RoleByGroups && (rule.Role == "" || !raw.SCIM.Groups) {
				rule.Wrong("role_by_scim_groups", "is for a rule with a role of an issuer with scim.groups; write them, or remove role_by_scim_groups")
			}
			out.Rules = append(out.Rules, rule.resolve(store))
		}
		issuers = append(issuers, out)
	}
	return issuers
}

func (f *scimFile) resolve(store bool, paths map[string]bool) *SCIM {
	f.Path, f.Claim, f.Attribute = cmp.Or(f.Path, "/scim/v2"), cmp.Or(f.Claim, "sub"), cmp.Or(f.Attribute, "externalId")
	out := SCIM{Path: f.Path, Claim: f.Claim, Attribute: f.Attribute, Required: f.Required}
	switch {
	case !store:
		f.Wrong("", "requires a store; write store, or remove scim")
	case !strings.HasPrefix(out.Path, "/scim/") || path.Clean(out.Path) != out.Path:
		f.Wrong("path", "%q is not a path below /scim; write one such as /scim/v2", f.Written("path", out.Path))
	case paths[out.Path]:
		f.Wrong("path", "is the path of another issuer; write another one, such as /scim/okta/v2")
	}
	paths[out.Path] = true
	if f.Groups {
		out.Groups = cmp.Or(f.GroupAttribute, "externalId")
	} else if f.Has("group_attribute") {
		f.Wrong("group_attribute", "is for groups: true; write groups too, or remove group_attribute")
	}
	return &out
}

func (f *issuerFile) check() {
	checkIdentityURL(&f.At, "issuer", f.Issuer)
	if strings.Contains(f.JWKS, "://") {
		checkIdentityURL(&f.At, "jwks", f.JWKS)
	}
	if len(f.Audiences) == 0 || slices.Contains(f.Audiences, "") {
		f.Wrong("audiences", "is empty: tokens for other services would be accepted; write the audience of this gateway, such as [isogloss]")
	}
	if len(f.Rules) == 0 {
		f.Wrong("rules", "is empty: nobody is admitted; write one, such as [{when: {groups: llm-users}, team: search}]")
	}
}

// checkIdentityURL checks an address of an identity provider. Keys that are fetched over plain HTTP
// could be replaced on the way, so only this machine may be addressed that way.
func checkIdentityURL(a *settings.At, key, value string) {
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		a.Wrong(key, "%q is not the URL of an identity provider; write one such as https://idp.example.com/realms/main", a.Written(key, value))
	case u.User != nil:
		a.Wrong(key, "holds a user name or password; remove it")
	case !safeurl.IsSafe(u):
		a.Wrong(key, "%q is not https; write an https URL", a.Written(key, value))
	}
}

// budgets returns the budgets of a rule. A budget of 0 is none.
func (f *ruleFile) budgets() (all []Budget) {
	if f.Window > 0 && f.Budget == "" {
		f.Wrong("window", "is the window of a budget, and there is none; write budget, or remove window")
	}
	if f.Has("budgets") && (f.Has("budget") || f.Has("window")) {
		f.Wrong("budgets", "has all budgets; move budget and window into it")
	}
	if len(f.Budgets) > 4 {
		f.Wrong("budgets", "has more than four budgets; remove some")
	}
	if strings.Trim(f.Budget, "0.") != "" {
		all = append(all, Budget{f.Budget, f.Window})
	}
	seen := map[time.Duration]bool{}
	for i := range f.Budgets {
		b := &f.Budgets[i]
		if strings.Trim(b.Budget, "0.") == "" {
			b.Wrong("budget", "is missing or 0; write an amount such as 5, or remove the budget")
		}
		if seen[b.Window] {
			b.Wrong("window", "is that of another budget; keep the smaller one")
		}
		seen[b.Window] = true
		all = append(all, Budget{b.Budget, b.Window})
	}
	return all
}

func (f *ruleFile) resolve(store bool) IdentityRule {
	if !store {
		for _, key := range []string{"requests_per_minute", "tokens_per_minute", "budget", "window", "budgets", "role"} {
			if f.Has(key) {
				f.Wrong(key, "requires a store; write store, or remove %s", key)
			}
		}
	}
	for _, name := range []struct{ key, value string }{{"org", f.Org}, {"team", f.Team}} {
		if strings.Contains(name.value, "/") || len(name.value) > 128 {
			f.Wrong(name.key, "has a slash or more than 128 bytes; write a shorter name without one")
		}
	}
	f.Org, f.Criticality = cmp.Or(f.Org, "default"), cmp.Or(f.Criticality, "normal")
	if len(f.Models) == 0 {
		f.Models = []string{"*"}
	}
	out := IdentityRule{Org: f.Org, Team: f.Team, Models: f.Models, Criticality: f.Criticality, Requests: f.Requests,
		Tokens: f.Tokens, Concurrency: f.Concurrency, Budgets: f.budgets(), Role: f.Role, RoleByGroups: f.RoleByGroups, Settings: f.Path(f.Settings)}
	for _, name := range slices.Sorted(maps.Keys(f.When)) {
		out.When = append(out.When, Claim{name, f.When[name]})
	}
	return out
}
