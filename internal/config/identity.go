package config

import (
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
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
	Settings    string // file; empty: none
}

// Budget is an amount of dollars per window. A window of 0 is all time.
type Budget struct {
	Amount string
	Window time.Duration
}

// Claim is a claim with the value that it must have.
type Claim struct{ Name, Value string }

func (f *identityFile) resolve(dir string, store bool, ps *Problems) (issuers []Issuer) {
	seen, paths := map[string]bool{}, map[string]bool{}
	for i := range f.Issuers {
		raw := &f.Issuers[i]
		raw.check(ps)
		if seen[raw.Issuer] {
			ps.addKey(&raw.at, "issuer", "is the same issuer as one before it; write their rules in one list")
		}
		seen[raw.Issuer] = true
		out := Issuer{URL: raw.Issuer, Audiences: raw.Audiences, Clients: raw.Clients, JWKS: raw.JWKS, CA: relativeTo(dir, raw.CA), Name: raw.Name}
		if out.JWKS != "" && !strings.Contains(out.JWKS, "://") {
			out.JWKS = relativeTo(dir, out.JWKS)
		}
		if raw.has("scim") {
			out.SCIM = raw.SCIM.resolve(store, paths, ps)
		}
		for j := range raw.Rules {
			out.Rules = append(out.Rules, raw.Rules[j].resolve(dir, store, ps))
		}
		issuers = append(issuers, out)
	}
	return issuers
}

func (f *scimFile) resolve(store bool, paths map[string]bool, ps *Problems) *SCIM {
	f.Path, f.Claim, f.Attribute = or(f.Path, "/scim/v2"), or(f.Claim, "sub"), or(f.Attribute, "externalId")
	out := SCIM{Path: f.Path, Claim: f.Claim, Attribute: string(f.Attribute), Required: f.Required}
	switch {
	case !store:
		ps.add(f.node, "requires a store; write store, or remove scim")
	case !strings.HasPrefix(out.Path, "/scim/") || path.Clean(out.Path) != out.Path:
		ps.addKey(&f.at, "path", "%q is not a path below /scim; write one such as /scim/v2", f.node.writtenAt("path", out.Path))
	case paths[out.Path]:
		ps.addKey(&f.at, "path", "is the path of another issuer; write another one, such as /scim/okta/v2")
	}
	paths[out.Path] = true
	return &out
}

func (f *issuerFile) check(ps *Problems) {
	f.checkIdentityURL("issuer", f.Issuer, ps)
	if strings.Contains(f.JWKS, "://") {
		f.checkIdentityURL("jwks", f.JWKS, ps)
	}
	if len(f.Audiences) == 0 || slices.Contains(f.Audiences, "") {
		ps.addKey(&f.at, "audiences", "is empty: tokens for other services would be accepted; write the audience of this gateway, such as [isogloss]")
	}
	if len(f.Rules) == 0 {
		ps.addKey(&f.at, "rules", "is empty: nobody is admitted; write one, such as [{when: {groups: llm-users}, team: search}]")
	}
}

// checkIdentityURL checks an address of an identity provider. Keys that are fetched over plain HTTP
// could be replaced on the way, so only this machine may be addressed that way.
func (a *at) checkIdentityURL(key, value string, ps *Problems) {
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		ps.addKey(a, key, "%q is not the URL of an identity provider; write one such as https://idp.example.com/realms/main", a.node.writtenAt(key, value))
	case u.User != nil:
		ps.addKey(a, key, "holds a user name or password; remove it")
	case !safeurl.IsSafe(u):
		ps.addKey(a, key, "%q is not https; write an https URL", a.node.writtenAt(key, value))
	}
}

// budgets returns the budgets of a rule. A budget of 0 is none.
func (f *ruleFile) budgets(ps *Problems) (all []Budget) {
	if f.Window > 0 && f.Budget == "" {
		ps.addKey(&f.at, "window", "is the window of a budget, and there is none; write budget, or remove window")
	}
	if f.has("budgets") && (f.has("budget") || f.has("window")) {
		ps.addKey(&f.at, "budgets", "has all budgets; move budget and window into it")
	}
	if len(f.Budgets) > 4 {
		ps.addKey(&f.at, "budgets", "has more than four budgets; remove some")
	}
	if strings.Trim(string(f.Budget), "0.") != "" {
		all = append(all, Budget{string(f.Budget), time.Duration(f.Window)})
	}
	seen := map[duration]bool{}
	for i := range f.Budgets {
		b := &f.Budgets[i]
		if strings.Trim(string(b.Budget), "0.") == "" {
			ps.addKey(&b.at, "budget", "is missing or 0; write an amount such as 5, or remove the budget")
		}
		if seen[b.Window] {
			ps.addKey(&b.at, "window", "is that of another budget; keep the smaller one")
		}
		seen[b.Window] = true
		all = append(all, Budget{string(b.Budget), time.Duration(b.Window)})
	}
	return all
}

func (f *ruleFile) resolve(dir string, store bool, ps *Problems) IdentityRule {
	for _, n := range []struct {
		key   string
		value int
	}{{"requests_per_minute", f.Requests}, {"tokens_per_minute", f.Tokens}, {"concurrency", f.Concurrency}} {
		f.checkCount(n.key, n.value, ps)
	}
	if !store {
		for _, key := range []string{"requests_per_minute", "tokens_per_minute", "budget", "window", "budgets", "role"} {
			if f.has(key) {
				ps.addKey(&f.at, key, "requires a store; write store, or remove %s", key)
			}
		}
	}
	for _, name := range []struct{ key, value string }{{"org", f.Org}, {"team", f.Team}} {
		if strings.Contains(name.value, "/") || len(name.value) > 128 {
			ps.addKey(&f.at, name.key, "has a slash or more than 128 bytes; write a shorter name without one")
		}
	}
	f.Org, f.Criticality = or(f.Org, "default"), or(f.Criticality, "normal")
	if len(f.Models) == 0 {
		f.Models = []string{"*"}
	}
	out := IdentityRule{Org: f.Org, Team: f.Team, Models: f.Models, Criticality: string(f.Criticality), Requests: f.Requests,
		Tokens: f.Tokens, Concurrency: f.Concurrency, Budgets: f.budgets(ps), Role: string(f.Role), Settings: relativeTo(dir, f.Settings)}
	for _, name := range slices.Sorted(maps.Keys(f.When)) {
		out.When = append(out.When, Claim{name, f.When[name]})
	}
	return out
}
