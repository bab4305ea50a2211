package scim

import (
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// TestEntra replays the requests that Entra's documentation shows: connection test, users, changes,
// deactivation in each of its forms, groups and their members, deletion.
func TestEntra(t *testing.T) {
	both(t, func(w *world) {
		const oid = "58342554-38d6-4ec8-948c-50044d0a33fd"
		g := w.want(200, `GET /v2/Users?filter=userName eq "0d7ae1b0-5a5c-4f3f-9f0c-6f6f6f6f6f6f"`, "")
		w.has(g, map[string]string{"totalResults": "0", "schemas.0": "urn:ietf:params:scim:api:messages:2.0:ListResponse", "Resources": "[]"})

		g = w.want(201, "POST /v2/Users", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User","urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],
			"externalId":"`+oid+`","userName":"Ann.Example@example.com","active":true,"displayName":"Ann","emails":[{"primary":true,"type":"work","value":"ann@example.com"}],
			"meta":{"resourceType":"User"},"name":{"formatted":"Ann Example","familyName":"Example","givenName":"Ann"},"roles":[],"title":"x",
			"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User":{"department":"search","manager":"m"}}`)
		id := g.at("id")
		w.has(g, map[string]string{"active": "true", "userName": "Ann.Example@example.com", "externalId": oid, "emails.0.value": "ann@example.com", "name.familyName": "Example", "meta.resourceType": "User", "meta.location": "/scim/v2/Users/" + id})
		if at := g.header.Get("Location"); at != "/scim/v2/Users/"+id {
			t.Errorf("Location: %s", at)
		}
		w.has(w.want(409, "POST /v2/Users", `{"userName":"ann.example@EXAMPLE.com"}`), map[string]string{"scimType": "uniqueness"})
		w.has(w.want(200, `GET /v2/Users?filter=userName eq "ann.example@example.com"`, ""), map[string]string{"totalResults": "1", "Resources.0.id": id, "itemsPerPage": "1", "startIndex": "1"})
		w.has(w.want(200, `GET /v2/Users?filter=externalId eq "`+oid+`"`, ""), map[string]string{"Resources.0.id": id})
		w.has(w.want(200, "GET /v2/Users/"+id, ""), map[string]string{"displayName": "Ann"})

		w.has(w.want(200, "PATCH /v2/Users/"+id, patch(
			`{"op":"Replace","path":"emails[type eq \"work\"].value","value":"new@example.com"}`, `{"op":"Replace","path":"name.familyName","value":"New"}`,
			`{"op":"Add","path":"emails[type eq \"home\"].value","value":"home@example.com"}`,
			`{"op":"Add","path":"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department","value":"ads"}`,
			`{"op":"Replace","value":{"displayName":"Ann N.","name.givenName":"A.","emails[type eq \"other\"].value":"o@example.com"}}`)),
			map[string]string{"emails.0.value": "new@example.com", "emails.0.primary": "true", "emails.1.type": "home", "emails.2.value": "o@example.com", "name.familyName": "New", "name.givenName": "A.", "name.formatted": "Ann Example", "displayName": "Ann N."})

		if !w.person("a", entra, access.ExternalID, oid) {
			t.Fatal("an active user is refused")
		}
		for _, form := range [][2]string{
			{`{"op":"Replace","path":"active","value":"False"}`, `{"op":"Replace","path":"active","value":"True"}`},
			{`{"op":"replace","path":"active","value":false}`, `{"op":"add","path":"Active","value":true}`},
			{`{"op":"Replace","value":{"active":false}}`, `{"op":"REPLACE","value":{"ACTIVE":"tRUE"}}`},
			{`{"op":"Replace","path":"urn:ietf:params:scim:schemas:core:2.0:User:active","value":[{"value":"False"}]}`, `{"op":"Replace","value":{"urn:ietf:params:scim:schemas:core:2.0:User:active":true}}`},
			{`{"op":"Replace","value":{"urn:ietf:params:scim:schemas:core:2.0:User":{"active":false}}}`, `{"op":"Replace","path":"active","value":true}`},
		} {
			w.has(w.want(200, "PATCH /v2/Users/"+id, patch(form[0])), map[string]string{"active": "false"})
			if w.account("a", entra, oid) {
				t.Errorf("%s: the person keeps the account", form[0])
			}
			w.has(w.want(200, `GET /v2/Users?filter=userName eq "ann.example@example.com" and active eq false`, ""), map[string]string{"Resources.0.active": "false"})
			w.has(w.want(200, "PATCH /v2/Users/"+id, patch(form[1])), map[string]string{"active": "true"})
			if !w.account("a", entra, oid) {
				t.Errorf("%s: the person is not restored", form[1])
			}
		}

		g = w.want(201, "POST /v2/Groups", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group","http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],"externalId":"8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159","displayName":"Search","meta":{"resourceType":"Group"}}`)
		group := g.at("id")
		w.has(w.want(200, `GET /v2/Groups?excludedAttributes=members&filter=displayName eq "search"`, ""), map[string]string{"totalResults": "1", "Resources.0.id": group})
		w.want(204, "PATCH /v2/Groups/"+group, patch(`{"op":"Add","path":"members","value":[{"$ref":null,"value":"`+id+`"}]}`))
		w.has(w.want(200, "GET /v2/Groups/"+group, ""), map[string]string{"members.0.value": id})
		w.has(w.want(200, "GET /v2/Groups/"+group+"?excludedAttributes=members", ""), map[string]string{"members": "", "displayName": "Search"})
		w.has(w.want(200, `GET /v2/Groups?filter=id eq "`+group+`" and members eq "`+id+`"`, ""), map[string]string{"totalResults": "1"})
		w.want(204, "PATCH /v2/Groups/"+group, patch(`{"op":"Remove","path":"members","value":[{"$ref":null,"value":"`+id+`"}]}`, `{"op":"Replace","path":"displayName","value":"Search 2"}`))
		w.has(w.want(200, "GET /v2/Groups/"+group, ""), map[string]string{"members": "", "displayName": "Search 2", "externalId": "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159"})
		w.want(204, "DELETE /v2/Groups/"+group, "")
		w.want(404, "GET /v2/Groups/"+group, "")

		w.want(204, "DELETE /v2/Users/"+id, "")
		w.want(404, "GET /v2/Users/"+id, "")
		w.want(404, "DELETE /v2/Users/"+id, "")
		w.has(w.want(200, "GET /v2/Users", ""), map[string]string{"totalResults": "0"})
		if w.person("a", entra, access.ExternalID, oid) {
			t.Error("a deleted user's person is admitted")
		}
		log := w.actions("a")
		for _, want := range []string{"scim.post-users scim-user allowed", "scim.patch-users scim-user allowed", "scim.delete-users scim-user allowed", "person.remove key allowed", "person.restore key allowed",
			"scim.post-groups scim-group allowed", "scim.patch-groups scim-group allowed", "scim.delete-groups scim-group allowed", "scim.post-users scim-user failed: uniqueness"} {
			if !slices.Contains(log, want) {
				t.Errorf("the audit log lacks %q: %q", want, log)
			}
		}
		if v, err := w.store.VerifyAudit(t.Context()); err != nil || v.Broken != 0 {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// TestOkta replays the requests that Okta's documentation and its tests show. Okta names people by
// userName.
func TestOkta(t *testing.T) {
	both(t, func(w *world) {
		w.has(w.want(200, "GET /okta/v2/Users?startIndex=1&count=2", ""), map[string]string{"totalResults": "0"})
		w.has(w.want(200, "GET /okta/v2/Groups?startIndex=1&count=100", ""), map[string]string{"totalResults": "0"})
		w.want(200, "GET /okta/v2/ServiceProviderConfig", "")
		w.has(w.want(200, `GET /okta/v2/Users?filter=userName eq "test.user@okta.local"&startIndex=1&count=100`, ""), map[string]string{"totalResults": "0"})
		create := `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"test.user@okta.local","name":{"givenName":"Test","familyName":"User"},
			"emails":[{"primary":true,"value":"test.user@okta.local","type":"work"}],"displayName":"Test User","locale":"en-US","externalId":"00ujl29u0le5T6Aj10h7","groups":[],"password":"1mz050nq","active":true}`
		g := w.want(201, "POST /okta/v2/Users", create)
		id := g.at("id")
		if strings.Contains(g.text, "1mz050nq") {
			t.Error("the password was stored")
		}
		w.has(w.want(409, "POST /okta/v2/Users", create), map[string]string{"scimType": "uniqueness"})
		w.want(404, "GET /okta/v2/Users/010101001010101011001010101011", "")
		if !w.person("a", okta, access.UserName, "test.user@okta.local") {
			t.Fatal("an active user is refused")
		}
		deactivate, activate := patch(`{"op":"replace","value":{"active":false}}`), patch(`{"op":"replace","value":{"active":true}}`)
		w.has(w.want(200, "PATCH /okta/v2/Users/"+id, deactivate), map[string]string{"active": "false"})
		if w.account("a", okta, "test.user@okta.local") {
			t.Error("the person keeps the account")
		}
		w.want(200, "PATCH /okta/v2/Users/"+id, activate)
		if !w.account("a", okta, "test.user@okta.local") {
			t.Error("the person is not restored")
		}

		put := `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"id":"` + id + `","userName":"renamed@okta.local","name":{"givenName":"Another","familyName":"User"},
			"emails":[{"primary":true,"value":"renamed@okta.local","type":"work","display":"x"}],"active":ACTIVE,"groups":[],"meta":{"resourceType":"User"}}`
		w.has(w.want(200, "PUT /okta/v2/Users/"+id, strings.Replace(put, "ACTIVE", "true", 1)), map[string]string{"id": id, "userName": "renamed@okta.local", "name.givenName": "Another", "externalId": "", "displayName": ""})
		w.has(w.want(200, "PUT /okta/v2/Users/"+id, strings.Replace(put, "ACTIVE", "false", 1)), map[string]string{"active": "false"})
		// A token with the name before the change is still valid.
		if w.account("a", okta, "test.user@okta.local") || w.person("a", okta, access.UserName, "test.user@okta.local") || w.person("a", okta, access.UserName, "Renamed@okta.local") {
			t.Error("a person whose name has changed is admitted")
		}
		w.has(w.want(200, "PUT /okta/v2/Users/"+id, strings.Replace(put, `"active":ACTIVE,`, "", 1)), map[string]string{"active": "false"})

		other := w.want(201, "POST /okta/v2/Users", `{"userName":"two"}`).at("id")
		group := w.want(201, "POST /okta/v2/Groups", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group"],"displayName":"Test SCIMv2","members":[{"value":"`+id+`","display":"x"}]}`)
		w.has(group, map[string]string{"members.0.value": id})
		path := "/okta/v2/Groups/" + group.at("id")
		w.want(204, "PATCH "+path, patch(`{"op":"remove","path":"members[value eq \"`+id+`\"]"}`, `{"op":"add","path":"members","value":[{"value":"`+other+`","display":"two"}]}`))
		w.has(w.want(200, "GET "+path, ""), map[string]string{"members.0.value": other, "members.1.value": ""})
		w.want(204, "PATCH "+path, patch(`{"op":"replace","value":{"id":"`+group.at("id")+`","displayName":"New name"}}`))
		w.has(w.want(200, "GET "+path, ""), map[string]string{"displayName": "New name", "members.0.value": other})
		w.want(204, "PATCH "+path, patch(`{"op":"replace","path":"members","value":[{"value":"`+id+`"},{"value":"`+other+`"},{"value":"`+id+`"}]}`))
		if g := w.want(200, "GET /okta/v2/Groups?startIndex=1&count=100", ""); g.at("Resources.0.members.1.value") == "" || g.at("Resources.0.members.2.value") != "" {
			t.Error(g.text)
		}
		w.has(w.want(200, "PUT "+path, `{"displayName":"Put","members":[{"value":"`+other+`"}]}`), map[string]string{"members.0.value": other, "members.1.value": ""})
		w.has(w.want(200, "PUT "+path, `{"displayName":"Put"}`), map[string]string{"members": ""})
		w.want(204, "DELETE "+path, "")
	})
}

// TestDiscovery checks the documents that say what is supported.
func TestDiscovery(t *testing.T) {
	w := newWorld(t, "sqlite:"+t.TempDir()+"/x.db")
	w.has(w.want(200, "GET /v2/ServiceProviderConfig", ""), map[string]string{"patch.supported": "true", "bulk.supported": "false", "filter.supported": "true", "authenticationSchemes.0.type": "oauthbearertoken"})
	w.has(w.want(200, "GET /v2/ResourceTypes", ""), map[string]string{"totalResults": "2", "Resources.0.endpoint": "/Users", "Resources.1.schema": groupSchema})
	w.has(w.want(200, "GET /v2/ResourceTypes/User", ""), map[string]string{"schema": userSchema})
	w.has(w.want(200, "GET /v2/Schemas", ""), map[string]string{"totalResults": "2", "Resources.0.id": userSchema, "Resources.0.attributes.0.uniqueness": "server"})
	w.has(w.want(200, "GET /v2/Schemas/"+groupSchema, ""), map[string]string{"name": "Group"})
	w.want(404, "GET /v2/Schemas/x", "")
	for _, what := range []string{"GET /v2/Me", "POST /v2/Bulk", "GET /v2/", "PUT /v2/Users", "DELETE /v2/Groups", "GET /v3/Users", "GET /v2x/Users", "GET /okta/Users", "POST /v2/Users/.search"} {
		w.want(404, what, "")
	}
}

// TestPages checks that pages of users are complete and disjoint.
func TestPages(t *testing.T) {
	both(t, func(w *world) {
		for _, name := range []string{"p1", "p2", "p3", "p4", "p5"} {
			w.user(name)
		}
		seen := map[string]bool{}
		for _, at := range []string{"startIndex=1&count=2", "startIndex=3&count=2", "startIndex=5&count=2"} {
			g := w.want(200, "GET /v2/Users?"+at, "")
			w.has(g, map[string]string{"totalResults": "5"})
			for _, r := range g.body["Resources"].([]any) {
				seen[r.(map[string]any)["id"].(string)] = true
			}
		}
		if len(seen) != 5 {
			t.Errorf("%d users of 5", len(seen))
		}
		w.has(w.want(200, "GET /v2/Users?count=0", ""), map[string]string{"totalResults": "5", "itemsPerPage": "0"})
		w.has(w.want(200, "GET /v2/Users?startIndex=-3&count=1000000", ""), map[string]string{"itemsPerPage": "5", "startIndex": "1"})
		w.has(w.want(200, "GET /v2/Users?startIndex=1000000000000", ""), map[string]string{"itemsPerPage": "0", "totalResults": "5"})
		w.want(400, "GET /v2/Users?startIndex=x", "")
	})
}
