package identity

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/quota"
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

func parseClaims(text []byte) (c claims, err error) {
	return c, json.Unmarshal(text, &c)
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
