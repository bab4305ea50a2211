package identity

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// Rule admits the people whose claims fulfil all conditions. A rule without conditions admits
// everybody with a valid token of the issuer.
type Rule struct {
	When  []Condition
	Grant Grant
	// RoleByGroups says that SCIM groups may fulfil a condition although the rule gives a role.
	RoleByGroups bool
	SettingsFile string // with the settings of coding agents; empty: none
}

// Condition is fulfilled if a claim has one of the values, alone or in a list.
type Condition struct {
	Claim  string // name, or path such as realm_access.roles
	Values []string
}

// Grant is what a rule gives.
type Grant struct {
	Org, Team   string
	Models      []string // names, or prefixes that end in "*"
	Endpoints   []string // empty allows all
	Criticality string
	Limit       quota.Limit // of each person
	Role        access.Role // in the admin API; empty: none
	Settings    *access.Settings
	OwnKeys     *access.OwnKeys // that people may create; nil: none
}

// maxValues limits how many values of a claim are compared.
const maxValues = 10_000

// claims are the claims of a verified token.
type claims map[string]any

// knownClaims are the names of the claims that decide about a token. go-oidc reads them in any case.
func knownClaims() []string {
	return []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "azp", "nonce", "at_hash", "cnf", "events", "email", "email_verified", "_claim_names", "_claim_sources"}
}

// maxClaimDepth is how deep the claims of a token may be nested.
const maxClaimDepth = 64

// parseClaims reads the claims of a token. It rejects members that are given twice, and names of known
// claims in another case: another reader, such as go-oidc, may take the other value.
func parseClaims(text []byte) (c claims, err error) {
	if err := checkDepth(text); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	for name := range c {
		for _, known := range knownClaims() {
			if name != known && strings.EqualFold(name, known) {
				return nil, fmt.Errorf("the claim %s is written %q", known, name)
			}
		}
	}
	if verified, ok := c["email_verified"]; ok && verified != true && verified != "true" {
		delete(c, "email") // it names nobody
	}
	return c, nil
}

// checkDepth rejects texts that are no JSON object or nested too deep.
func checkDepth(text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if d.PeekKind() != '{' {
		return errors.New("the claims are no JSON object")
	}
	for {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		switch depth := d.StackDepth(); {
		case depth > maxClaimDepth:
			return fmt.Errorf("the claims are nested more than %d levels deep", maxClaimDepth)
		case depth == 0:
			return nil
		}
	}
}

// values returns the text values of a claim, named directly or by a path of names.
func (c claims) values(path string) []string {
	at, ok := c.find(path)
	if !ok {
		return nil
	}
	list, isList := at.([]any)
	if !isList {
		list = []any{at}
	}
	var out []string
	for _, v := range list[:min(len(list), maxValues)] {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case bool:
			out = append(out, strconv.FormatBool(v))
		}
	}
	return out
}

// find returns a claim. Names may contain dots themselves, so every dot may be one of the path.
func (c claims) find(path string) (any, bool) {
	if at, ok := c[path]; ok {
		return at, true
	}
	for i := range len(path) {
		if inner, ok := c[path[:i]].(map[string]any); ok && path[i] == '.' {
			if at, ok := claims(inner).find(path[i+1:]); ok {
				return at, true
			}
		}
	}
	return nil, false
}

// text returns a claim that has one text value, or "".
func (c claims) text(path string) string {
	if v := c.values(path); len(v) == 1 {
		return v[0]
	}
	return ""
}

// groupsClaim is the claim whose conditions SCIM groups can fulfil.
const groupsClaim = "groups"

// only returns the claims that rules and the name of a person read. Paths are names then.
func (c claims) only(rules []Rule, name string) claims {
	kept := claims{}
	keep := func(path string) {
		if at, ok := c.find(path); ok {
			kept[path] = at
		}
	}
	keep(name)
	for i := range rules {
		for _, when := range rules[i].When {
			keep(when.Claim)
		}
	}
	return kept
}

// matched is a rule that holds, and why.
type matched struct {
	rule     *Rule
	why      string
	byGroups bool // a SCIM group fulfils a condition that the token does not
}

// match returns the first rule that holds for a token and the SCIM groups of its owner, nil if there is
// none. A rule takes the groups of directories that manage the people of its organisation.
func (i *issuer) match(c claims, groups *access.SCIMGroups) *matched {
	for n := range i.Rules {
		r := &i.Rules[n]
		var scim []string
		if r.Grant.Role == "" || r.RoleByGroups {
			scim = groups.In(r.Grant.Org, i.SCIM.Groups)
		}
		if m := r.match(c, scim); m != nil {
			return m
		}
	}
	return nil
}

// match returns how the claims and the SCIM groups fulfil all conditions, nil if they do not.
func (r *Rule) match(c claims, groups []string) *matched {
	m := matched{rule: r, why: "the token is valid"}
	var reasons []string
	for _, when := range r.When {
		has, place := c.values(when.Claim), when.Claim
		fulfils := func(v string) bool { return slices.Contains(has, v) }
		i := slices.IndexFunc(when.Values, fulfils)
		if i < 0 && when.Claim == groupsClaim {
			has, place = groups, "groups (from SCIM)"
			i = slices.IndexFunc(when.Values, fulfils)
			m.byGroups = true
		}
		if i < 0 {
			return nil
		}
		reasons = append(reasons, fmt.Sprintf("%s contains %s", place, when.Values[i]))
	}
	if len(reasons) > 0 {
		m.why = strings.Join(reasons, " and ")
	}
	return &m
}

// describe returns what the grant gives and why, such as "team search, because groups contains
// llm-search".
func (g *Grant) describe(why string) string {
	place := "organisation " + g.Org
	if g.Team != "" {
		place = "team " + g.Team
	}
	if g.Role != "" {
		place += ", role " + string(g.Role)
	}
	return place + ", because " + why
}
