package identity

import (
	"cmp"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// Build returns what the settings describe. store says whether there is a store, which some of them require.
func (f *Settings) Build(store bool) ([]Issuer, *SignIn) {
	issuers := f.build(store)
	return issuers, f.SignIn.resolve(issuers, store)
}

// build returns the issuers. store says whether there is a store.
func (f *Settings) build(store bool) (issuers []Issuer) {
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

func (f *scimSettings) resolve(store bool, paths map[string]bool) SCIM {
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
	return out
}

func (f *issuerSettings) check() {
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

// budgets returns the budgets of a rule. A budget of 0 is none. valid is false if a mistake was reported.
func (f *ruleSettings) budgets() (all []budget.Budget, valid bool) {
	valid = true
	wrong := func(at *settings.At, key, message string) {
		at.Wrong(key, "%s", message)
		valid = false
	}
	if f.Window > 0 && f.Budget == "" {
		wrong(&f.At, "window", "is the window of a budget, and there is none; write budget, or remove window")
	}
	if f.Has("budgets") && (f.Has("budget") || f.Has("window")) {
		wrong(&f.At, "budgets", "has all budgets; move budget and window into it")
	}
	if len(f.Budgets) > 4 {
		wrong(&f.At, "budgets", "has more than four budgets; remove some")
	}
	add := func(text string, window time.Duration) {
		amount, err := usage.ParseMoney(text)
		valid = valid && err == nil // the pattern of the setting has reported it
		all = append(all, budget.Budget{Amount: amount, Window: window})
	}
	if strings.Trim(f.Budget, "0.") != "" {
		add(f.Budget, f.Window)
	}
	seen := map[time.Duration]bool{}
	for i := range f.Budgets {
		b := &f.Budgets[i]
		if strings.Trim(b.Budget, "0.") == "" {
			wrong(&b.At, "budget", "is missing or 0; write an amount such as 5, or remove the budget")
		}
		if seen[b.Window] {
			wrong(&b.At, "window", "is that of another budget; keep the smaller one")
		}
		seen[b.Window] = true
		add(b.Budget, b.Window)
	}
	return all, valid
}

func (f *ownKeysSettings) resolve(store bool) *access.OwnKeys {
	if !store {
		f.Wrong("", "requires a store, in which keys are kept; write store, or remove own_keys")
	}
	return &access.OwnKeys{Max: cmp.Or(f.Max, 5), Expires: cmp.Or(f.Expires, 90*24*time.Hour), Models: f.Models}
}

func (f *ruleSettings) resolve(store bool) Rule {
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
	limit := quota.Limit{Requests: int64(f.Requests), Tokens: int64(f.Tokens), Concurrency: int64(f.Concurrency)}
	budgets, valid := f.budgets()
	if err := limit.SetBudgets(budgets); err != nil && valid {
		f.Wrong("budgets", "%v", err)
	}
	out := Rule{RoleByGroups: f.RoleByGroups, SettingsFile: f.Path(f.Settings),
		Grant: Grant{Org: f.Org, Team: f.Team, Models: f.Models, Criticality: f.Criticality, Role: access.Role(f.Role), Limit: limit}}
	if f.Has("own_keys") {
		out.Grant.OwnKeys = f.OwnKeys.resolve(store)
	}
	for _, name := range slices.Sorted(maps.Keys(f.When)) {
		out.When = append(out.When, Condition{Claim: name, Values: []string{f.When[name]}})
	}
	return out
}

// SignIn makes the gateway a client of an identity provider.
type SignIn struct {
	URL     string // of the client port, without a slash at its end
	Admin   string // of the admin port; may be empty
	Issuer  string
	CA      string // file
	Client  string
	Secret  secret.String
	Scopes  []string
	IDToken bool
	Notice  string
}

// resolve returns nil if no sign-in is configured.
func (f *signInSettings) resolve(issuers []Issuer, store bool) *SignIn {
	if !f.On() {
		return nil
	}
	f.check(store)
	out := &SignIn{URL: strings.TrimSuffix(f.URL, "/"), Admin: strings.TrimSuffix(f.Admin, "/"), Issuer: f.Issuer, Client: f.Client, Secret: f.Secret,
		IDToken: f.Token == "id_token", Notice: f.Notice}
	if len(f.Scopes) == 0 {
		f.Scopes = []string{"openid", "email"}
	}
	out.Scopes = f.Scopes
	at := slices.IndexFunc(issuers, func(i Issuer) bool { return f.Issuer == "" || i.URL == f.Issuer })
	if at < 0 {
		f.Wrong("issuer", "is not one of identity.issuers; write that issuer there, with its rules")
		return nil
	}
	out.Issuer, out.CA = issuers[at].URL, issuers[at].CA
	if out.IDToken && !slices.Contains(issuers[at].Audiences, f.Client) {
		f.Wrong("token", "is id_token, whose audience is the client, and audiences of the issuer does not have %q; add it there", f.Client)
	}
	return out
}

func (f *signInSettings) check(store bool) {
	if !store {
		f.Wrong("url", "requires a store, which keeps sign-ins for all nodes; write store, or remove sign_in")
	}
	checkIdentityURL(&f.At, "url", f.URL)
	if f.Admin != "" {
		checkIdentityURL(&f.At, "admin", f.Admin)
	}
	if f.Client == "" {
		f.Wrong("client", "is empty; write the id under which the identity provider knows the gateway")
	}
	if len(f.Scopes) > 0 && !slices.Contains(f.Scopes, "openid") {
		f.Wrong("scopes", "has no openid, without which the identity provider does not say who has signed in; add it")
	}
}
