package identity

import (
	"context"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

// directoryOf has the groups of ann, who is known by her subject.
type directoryOf struct {
	issuer string
	groups *access.SCIMGroups
	fault  *llm.Error
}

func (d *directoryOf) SCIMGroups(_ context.Context, name string, _ *access.SCIMGroups) (*access.SCIMGroups, *llm.Error) {
	if name != access.SCIMName(d.issuer, access.ExternalID, "ann") {
		return &access.SCIMGroups{}, d.fault
	}
	return d.groups, d.fault
}

// TestGroupsOfSCIM checks which rules read SCIM groups, and whose.
func TestGroupsOfSCIM(t *testing.T) {
	p := newProvider(t)
	member := func(list ...access.SCIMGroup) *access.SCIMGroups { return &access.SCIMGroups{List: list} }
	for name, c := range map[string]struct {
		attribute string // that rules read; empty: groups are off
		claims    map[string]any
		groups    *access.SCIMGroups
		reason    string // empty: refused
	}{
		"a group":                     {access.ExternalID, nil, member(access.SCIMGroup{Org: "acme", ExternalID: "g-search"}), "team search, because groups (from SCIM) contains g-search"},
		"of all organisations":        {access.ExternalID, nil, member(access.SCIMGroup{ExternalID: "g-search"}), "team search, because groups (from SCIM) contains g-search"},
		"off":                         {"", nil, member(access.SCIMGroup{Org: "acme", ExternalID: "g-search"}), ""},
		"a foreign directory":         {access.ExternalID, nil, member(access.SCIMGroup{Org: "other", ExternalID: "g-search"}), ""},
		"a name, by id":               {access.ExternalID, nil, member(access.SCIMGroup{Org: "acme", ExternalID: "g-mine", Name: "g-search"}), ""},
		"a name":                      {access.DisplayName, nil, member(access.SCIMGroup{Org: "acme", ExternalID: "g-mine", Name: "g-search"}), "team search, because groups (from SCIM) contains g-search"},
		"an id, by name":              {access.DisplayName, nil, member(access.SCIMGroup{Org: "acme", ExternalID: "g-search", Name: "Mine"}), ""},
		"another case":                {access.DisplayName, nil, member(access.SCIMGroup{Org: "acme", Name: "G-Search"}), ""},
		"no group":                    {access.ExternalID, nil, member(), ""},
		"another person":              {access.ExternalID, map[string]any{"sub": "eve"}, member(access.SCIMGroup{ExternalID: "g-search"}), ""},
		"the token":                   {access.ExternalID, map[string]any{"groups": []string{"g-search"}}, member(access.SCIMGroup{ExternalID: "g-search"}), "team search, because groups contains g-search"},
		"a role":                      {access.ExternalID, nil, member(access.SCIMGroup{ExternalID: "g-ops"}), ""},
		"a role by the token":         {access.ExternalID, map[string]any{"groups": "g-ops"}, member(), "organisation acme, role auditor, because groups contains g-ops"},
		"a role whose rule allows it": {access.ExternalID, nil, member(access.SCIMGroup{ExternalID: "g-audit"}), "organisation acme, role auditor, because groups (from SCIM) contains g-audit"},
		"another claim":               {access.ExternalID, nil, member(access.SCIMGroup{ExternalID: "g-roles"}), ""},
		"with another claim":          {access.ExternalID, map[string]any{"dept": "r"}, member(access.SCIMGroup{ExternalID: "g-both"}), "team both, because dept contains r and groups (from SCIM) contains g-both"},
		"without the other claim":     {access.ExternalID, nil, member(access.SCIMGroup{ExternalID: "g-both"}), ""},
	} {
		in := func(claim, value string) Condition { return Condition{Claim: claim, Values: []string{value}} }
		i := Issuer{URL: p.URL, Audiences: []string{"isogloss"}, SCIM: SCIM{Claim: "sub", Attribute: access.ExternalID, Groups: c.attribute}, Rules: []Rule{
			{When: []Condition{in("groups", "g-ops")}, Grant: Grant{Org: "acme", Role: access.Auditor}},
			{When: []Condition{in("groups", "g-audit")}, Grant: Grant{Org: "acme", Role: access.Auditor}, RoleByGroups: true},
			{When: []Condition{in("groups", "g-search")}, Grant: Grant{Org: "acme", Team: "search"}},
			{When: []Condition{in("roles", "g-roles")}, Grant: Grant{Org: "acme"}},
			{When: []Condition{in("dept", "r"), in("groups", "g-both")}, Grant: Grant{Org: "acme", Team: "both"}},
		}}
		v := newTestVerifier(t, time.Now, i)
		v.Groups = &directoryOf{issuer: p.URL, groups: c.groups}
		claims := map[string]any{"groups": nil}
		for k, value := range c.claims {
			claims[k] = value
		}
		token := sign(t, p.keys[0], nil, p.claimsOf(claims))
		got, fault := v.Person(t.Context(), token)
		switch {
		case fault != nil && (c.reason != "" || fault.Code != "not_admitted"):
			t.Errorf("%s: %v", name, fault)
		case fault == nil && got.Reason != c.reason:
			t.Errorf("%s: %q, want %q", name, got.Reason, c.reason)
		}
		if why := v.Explain(t.Context(), token); c.reason != "" && why != c.reason {
			t.Errorf("%s is explained as %q", name, why)
		}
	}
}

// TestGroupsOfSCIMChange checks that a known token follows the groups of its owner, and is neither admitted
// nor forgotten while they cannot be read.
func TestGroupsOfSCIMChange(t *testing.T) {
	p := newProvider(t)
	i := p.issuer()
	i.SCIM = SCIM{Claim: "sub", Attribute: access.ExternalID, Groups: access.ExternalID}
	v := newTestVerifier(t, time.Now, i)
	d := &directoryOf{issuer: p.URL, groups: &access.SCIMGroups{}}
	v.Groups = d
	token := sign(t, p.keys[0], nil, p.claimsOf(map[string]any{"groups": nil}))
	want := func(code string) *access.Person {
		t.Helper()
		got, fault := v.Person(t.Context(), token)
		if (fault == nil) != (code == "") || fault != nil && fault.Code != code {
			t.Errorf("%+v, %v; want %q", got, fault, code)
		}
		return got
	}
	want("not_admitted")
	d.groups = &access.SCIMGroups{List: []access.SCIMGroup{{ExternalID: "llm-search"}}}
	first := want("")
	if first.Record.Name != "ann@example.com" || !first.ByGroups || first.Groups != d.groups || want("") != first {
		t.Errorf("%+v", first)
	}
	d.groups = &access.SCIMGroups{List: []access.SCIMGroup{{ExternalID: "llm-search"}, {ExternalID: "x"}}}
	if again := want(""); again == first || again.Record.Name != first.Record.Name || again.Revocation != first.Revocation || !again.Expires.Equal(first.Expires) {
		t.Errorf("%+v, before %+v", again, first)
	}
	d.groups = &access.SCIMGroups{}
	want("not_admitted")
	want("not_admitted")
	d.fault = &llm.Error{Kind: llm.Overloaded, Code: "keys_unavailable"}
	want("keys_unavailable")
	d.groups, d.fault = &access.SCIMGroups{List: []access.SCIMGroup{{ExternalID: "llm-search"}}}, nil
	want("")
}
