package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	grouped = "/scim/grouped" // rules name groups by externalId
	named   = "/scim/named"   // by displayName
)

// user creates a user with the key of a directory and returns its id.
func (r *rig) user(ctx context.Context, key, base, name string) string {
	e := r.scim(ctx, key, "POST "+base+"/Users", fmt.Sprintf(`{"userName":%q,"externalId":%q}`, name, name))
	r.changed(e)
	return testrig.Parse([]byte(e.body)).Str("id")
}

// putInGroup creates a group with a member and returns its id.
func (r *rig) putInGroup(ctx context.Context, key, base, externalID, name, user string) string {
	e := r.scim(ctx, key, "POST "+base+"/Groups", fmt.Sprintf(`{"displayName":%q,"externalId":%q,"members":[{"value":%q}]}`, name, externalID, user))
	r.changed(e)
	return testrig.Parse([]byte(e.body)).Str("id")
}

// tokenOf returns a token of a person without groups, with further claims.
func (r *rig) tokenOf(issuer, name string, more map[string]any) string {
	claims := map[string]any{"oid": name, "sub": name, "groups": nil}
	for k, v := range more {
		claims[k] = v
	}
	return r.issuer.sign("EdDSA", r.issuer.claims(issuer, claims))
}

// admitted sends a token until its owner is admitted.
func (r *rig) admitted(ctx context.Context, token string) {
	e := &evidence{}
	_ = testrig.Until(ctx, idlePatience, "", func() bool {
		e = r.withToken(ctx, token)
		return e.status == http.StatusOK || r.weak
	})
	if e.status != http.StatusOK && !r.weak {
		testrig.NoError(errorStatus("a member of a group is not admitted", e))
	}
}

// scimGroupAttacks want what groups of SCIM give to others, or gave before.
func scimGroupAttacks() (all []attack) {
	patch := func(ctx context.Context, r *rig, base, id, operation string) {
		r.changed(r.scim(ctx, "scim", "PATCH "+base+"/Groups/"+id, patchOf(operation)))
	}
	for name, do := range map[string]func(ctx context.Context, r *rig, n string) *evidence{
		"foreign-directory": func(ctx context.Context, r *rig, n string) *evidence {
			r.putInGroup(ctx, "scim-b", grouped, "g-in", n, r.user(ctx, "scim-b", grouped, n))
			return r.withToken(ctx, r.tokenOf("grouped", n, nil))
		},
		"foreign-directory-known-user": func(ctx context.Context, r *rig, n string) *evidence {
			r.user(ctx, "scim", grouped, n)
			r.putInGroup(ctx, "scim-b", grouped, "g-in", n, r.user(ctx, "scim-b", grouped, n))
			return r.withToken(ctx, r.tokenOf("grouped", n, nil))
		},
		"foreign-member": func(ctx context.Context, r *rig, n string) *evidence {
			id := r.user(ctx, "scim-b", grouped, n)
			r.scim(ctx, "scim", "POST "+grouped+"/Groups", fmt.Sprintf(`{"displayName":%q,"externalId":"g-in","members":[{"value":%q}]}`, n, id)) // refused
			return r.withToken(ctx, r.tokenOf("grouped", n, nil))
		},
		"another-issuer": func(ctx context.Context, r *rig, n string) *evidence {
			r.putInGroup(ctx, "scim", named, "g-in", n, r.user(ctx, "scim", named, n))
			return r.withToken(ctx, r.tokenOf("grouped", n, nil))
		},
		"issuer-without-groups": func(ctx context.Context, r *rig, n string) *evidence {
			r.putInGroup(ctx, "scim", strict, "Insiders", "Insiders-"+n, r.user(ctx, "scim", strict, n))
			return r.withToken(ctx, r.tokenOf("named", n, nil))
		},
		"named-like-an-id": func(ctx context.Context, r *rig, n string) *evidence {
			r.scim(ctx, "scim", "POST "+grouped+"/Groups", fmt.Sprintf(`{"displayName":"g-in","externalId":"mine","members":[{"value":%q}]}`, r.user(ctx, "scim", grouped, n)))
			return r.withToken(ctx, r.tokenOf("grouped", n, nil))
		},
		"renamed-to-an-id": func(ctx context.Context, r *rig, n string) *evidence {
			id := r.putInGroup(ctx, "scim", grouped, "mine-"+n, n, r.user(ctx, "scim", grouped, n))
			patch(ctx, r, grouped, id, fmt.Sprintf(`{"op":"replace","path":"displayName","value":"%s"},{"op":"add","path":"displayName","value":"g-in "}`, n))
			return r.withToken(ctx, r.tokenOf("grouped", n, nil))
		},
		"id-like-a-name": func(ctx context.Context, r *rig, n string) *evidence {
			r.putInGroup(ctx, "scim", named, "Insiders", n, r.user(ctx, "scim", named, n))
			return r.withToken(ctx, r.tokenOf("named", n, nil))
		},
		"name-in-another-case": func(ctx context.Context, r *rig, n string) *evidence {
			id := r.user(ctx, "scim", named, n)
			r.scim(ctx, "scim", "POST "+named+"/Groups", fmt.Sprintf(`{"displayName":"INSIDERS","externalId":"x","members":[{"value":%q}]}`, id))
			return r.withToken(ctx, r.tokenOf("named", n, nil))
		},
		"renamed-away": func(ctx context.Context, r *rig, n string) *evidence {
			id := r.putInGroup(ctx, "scim", grouped, "g-in", n, r.user(ctx, "scim", grouped, n))
			token := r.tokenOf("grouped", n, nil)
			r.admitted(ctx, token)
			patch(ctx, r, grouped, id, `{"op":"replace","path":"externalId","value":"g-out"}`)
			return r.notAdmitted(ctx, token)
		},
		"removed-member": func(ctx context.Context, r *rig, n string) *evidence {
			user := r.user(ctx, "scim", grouped, n)
			id, token := r.putInGroup(ctx, "scim", grouped, "g-in", n, user), r.tokenOf("grouped", n, nil)
			r.admitted(ctx, token)
			patch(ctx, r, grouped, id, fmt.Sprintf(`{"op":"remove","path":"members[value eq \"%s\"]"}`, user))
			return r.notAdmitted(ctx, token)
		},
		"removed-member-older-token": func(ctx context.Context, r *rig, n string) *evidence {
			user := r.user(ctx, "scim", grouped, n)
			id, older, newer := r.putInGroup(ctx, "scim", grouped, "g-in", n, user), r.tokenOf("grouped", n, map[string]any{"iat": 1}), r.tokenOf("grouped", n, nil)
			r.admitted(ctx, older)
			r.admitted(ctx, newer)
			patch(ctx, r, grouped, id, `{"op":"remove","path":"members"}`)
			return r.notAdmitted(ctx, older)
		},
		"deleted-group": func(ctx context.Context, r *rig, n string) *evidence {
			id, token := r.putInGroup(ctx, "scim", grouped, "g-in", n, r.user(ctx, "scim", grouped, n)), r.tokenOf("grouped", n, nil)
			r.admitted(ctx, token)
			r.changed(r.scim(ctx, "scim", "DELETE "+grouped+"/Groups/"+id, ""))
			return r.notAdmitted(ctx, token)
		},
		"earlier-name": func(ctx context.Context, r *rig, n string) *evidence {
			user := r.user(ctx, "scim", grouped, n)
			r.putInGroup(ctx, "scim", grouped, "g-in", n, user)
			token := r.tokenOf("grouped", n, nil)
			r.admitted(ctx, token)
			r.changed(r.scim(ctx, "scim", "PATCH "+grouped+"/Users/"+user, patchOf(fmt.Sprintf(`{"op":"replace","path":"externalId","value":"%s-2"}`, n))))
			return r.notAdmitted(ctx, token)
		},
		"removed-user": func(ctx context.Context, r *rig, n string) *evidence {
			user := r.user(ctx, "scim", grouped, n)
			r.putInGroup(ctx, "scim", grouped, "g-in", n, user)
			token := r.tokenOf("grouped", n, nil)
			r.admitted(ctx, token)
			r.changed(r.scim(ctx, "scim", "DELETE "+grouped+"/Users/"+user, ""))
			return r.notAdmitted(ctx, token)
		},
		"other-claim": func(ctx context.Context, r *rig, n string) *evidence {
			r.putInGroup(ctx, "scim", grouped, "g-in", n, r.user(ctx, "scim", grouped, n))
			return r.withToken(ctx, r.tokenOf("grouped", "not-"+n, map[string]any{"OID": n, "externalId": n}))
		},
	} {
		all = append(all, attack{name: "scim/groups/" + name, do: func(ctx context.Context, r *rig) *evidence { return do(ctx, r, "grouped-"+name) }, holds: []oracle{refuses(401, 403)}})
	}
	role := func(ctx context.Context, r *rig) *evidence {
		user := r.user(ctx, "scim", grouped, "grouped-role")
		r.putInGroup(ctx, "scim", grouped, "g-in", "grouped-role-in", user)
		r.putInGroup(ctx, "scim", grouped, "g-ops", "grouped-role-ops", user)
		token := r.tokenOf("grouped", "grouped-role", nil)
		r.admitted(ctx, token)
		return r.send(ctx, request{method: "GET", path: "/api/v1/keys", admin: true, headers: []string{"Authorization", "Bearer " + token}})
	}
	all = append(all, attack{name: "scim/groups/role", do: role, holds: []oracle{refuses(401, 403)}})
	return all
}
