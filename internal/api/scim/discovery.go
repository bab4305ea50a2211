package scim

import (
	"net/http"
	"strings"
)

type object map[string]any

// providerConfig says what the endpoints support.
func (s *server) providerConfig(*request) (int, any, error) {
	off := object{"supported": false}
	return http.StatusOK, object{
		"schemas":        []string{"urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"},
		"patch":          object{"supported": true},
		"bulk":           object{"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
		"filter":         object{"supported": true, "maxResults": maxPage},
		"changePassword": off,
		"sort":           off,
		"etag":           off,
		"authenticationSchemes": []object{{"type": "oauthbearertoken", "name": "Operator key",
			"description": "A key of the admin API with the role key-manager, as Authorization: Bearer KEY."}},
	}, nil
}

// resourceTypes lists the types of resources, or shows one.
func (s *server) resourceTypes(r *request) (int, any, error) {
	kind := func(name, schema string) object {
		return object{"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:ResourceType"}, "id": name, "name": name,
			"endpoint": "/" + name + "s", "schema": schema, "meta": object{"resourceType": "ResourceType", "location": r.base + "/ResourceTypes/" + name}}
	}
	return pick(r.id, kind("User", userSchema), kind("Group", groupSchema))
}

// schemas lists the schemas, or shows one.
func (s *server) schemas(r *request) (int, any, error) {
	schema := func(id, name string, attributes ...object) object {
		return object{"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:Schema"}, "id": id, "name": name, "description": name,
			"attributes": attributes, "meta": object{"resourceType": "Schema", "location": r.base + "/Schemas/" + id}}
	}
	text := func(name string) object { return attribute(name, "string", false) }
	userName := attribute("userName", "string", true)
	userName["uniqueness"] = "server"
	displayName := attribute("displayName", "string", true)
	displayName["uniqueness"] = "server"
	return pick(r.id,
		schema(userSchema, "User", userName, text("externalId"), text("displayName"), attribute("active", "boolean", false),
			complexAttribute("name", false, text("formatted"), text("familyName"), text("givenName")),
			complexAttribute("emails", true, text("value"), text("type"), attribute("primary", "boolean", false))),
		schema(groupSchema, "Group", displayName, text("externalId"), complexAttribute("members", true, text("value"))))
}

func attribute(name, kind string, required bool) object {
	return object{"name": name, "type": kind, "multiValued": false, "description": name, "required": required, "caseExact": name == "externalId" || name == "value",
		"mutability": "readWrite", "returned": "default", "uniqueness": "none"}
}

func complexAttribute(name string, multi bool, parts ...object) object {
	a := attribute(name, "complex", false)
	a["multiValued"], a["subAttributes"] = multi, parts
	return a
}

// pick returns all resources, or the one with an id.
func pick(id string, all ...object) (int, any, error) {
	var out []any
	for _, o := range all {
		if name, _ := o["id"].(string); id != "" && strings.EqualFold(name, id) {
			return http.StatusOK, o, nil
		}
		out = append(out, o)
	}
	if id != "" {
		return 0, nil, errMissing
	}
	return http.StatusOK, newList(len(out), 1, out), nil
}
