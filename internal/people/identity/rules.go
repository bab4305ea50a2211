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

// match returns the first rule that admits the claims, and the reason in words.
func match(rules []Rule, c claims) (*Rule, string) {
	for i := range rules {
		if why, ok := rules[i].admits(c); ok {
			return &rules[i], why
		}
	}
	return nil, ""
}

// admits reports whether the claims fulfil all conditions, and says how.
func (r *Rule) admits(c claims) (string, bool) {
	var reasons []string
	for _, when := range r.When {
		has := c.values(when.Claim)
		i := slices.IndexFunc(when.Values, func(v string) bool { return slices.Contains(has, v) })
		if i < 0 {
			return "", false
		}
		reasons = append(reasons, fmt.Sprintf("%s contains %s", when.Claim, when.Values[i]))
	}
	if len(reasons) == 0 {
		return "the token is valid", true
	}
	return strings.Join(reasons, " and "), true
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
