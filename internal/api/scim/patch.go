package scim

import (
	"maps"
	"slices"
	"strings"
)

// change is one change of an attribute. A PATCH has several, and a whole resource is one per member.
type change struct {
	remove, replace bool   // neither: add
	attribute       string // in lower case
	filter          []term // selects among several values
	sub             string // attribute of the value, in lower case
	value           any    // nil: none
}

// changesOf returns the changes that a whole resource stands for.
func changesOf(resource map[string]any) ([]change, error) {
	return (&change{replace: true}).expand(resource)
}

// readPatch returns the changes of a PATCH.
func readPatch(body map[string]any) (all []change, err error) {
	operations, ok := member(body, "operations").([]any)
	if !ok || len(operations) == 0 {
		return nil, invalid(invalidSyntax, "the body has no Operations")
	}
	if len(operations) > maxOperations {
		return nil, tooMuch("a PATCH may have %d operations; send several", maxOperations)
	}
	for _, o := range operations {
		operation, ok := o.(map[string]any)
		if !ok {
			return nil, invalid(invalidSyntax, "an operation is not an object")
		}
		c := change{value: member(operation, "value")}
		op, _ := member(operation, "op").(string)
		switch strings.ToLower(op) {
		case "add":
		case "replace":
			c.replace = true
		case "remove":
			c.remove = true
		default:
			return nil, invalid(invalidSyntax, "op is none of add, replace and remove")
		}
		next, err := c.at(member(operation, "path"))
		if err != nil {
			return nil, err
		}
		all = append(all, next...)
	}
	if len(all) > maxOperations {
		return nil, tooMuch("a PATCH may change %d attributes; send several", maxOperations)
	}
	return all, nil
}

// at returns the changes of an operation: one for a path, or one per member of the value without.
func (c *change) at(path any) ([]change, error) {
	switch path := path.(type) {
	case nil:
	case string:
		if path == "" {
			break
		}
		if err := c.setPath(path); err != nil {
			return nil, err
		}
		return []change{*c}, nil
	default:
		return nil, invalid(invalidPath, "path is not a text")
	}
	value, ok := c.value.(map[string]any)
	if !ok || c.remove {
		return nil, invalid(invalidPath, "an operation without path needs an object as value, and cannot remove")
	}
	return c.expand(value)
}

// expand returns a change for each member of an object. A name may be a path, as Entra sends it.
func (c *change) expand(object map[string]any) (all []change, err error) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		one := change{replace: c.replace, value: object[name]}
		if inner, ok := one.value.(map[string]any); ok && (strings.EqualFold(name, userSchema) || strings.EqualFold(name, groupSchema)) {
			changes, err := c.expand(inner)
			if err != nil {
				return nil, err
			}
			all = append(all, changes...)
			continue
		}
		if err := one.setPath(name); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// setPath reads a path: attribute, attribute.sub, attribute[filter] or attribute[filter].sub. Schemas
// other than those of users and groups have an attribute that nothing knows.
func (c *change) setPath(path string) error {
	if len(path) > maxFilter {
		return invalid(invalidPath, "a path has more than %d bytes", maxFilter)
	}
	path = trimSchema(path)
	if len(path) > 4 && strings.EqualFold(path[:4], "urn:") {
		c.attribute = "urn"
		return nil
	}
	if begin := strings.IndexByte(path, '['); begin >= 0 {
		end := strings.LastIndexByte(path, ']')
		if end < begin {
			return invalid(invalidPath, "a path has a filter without an end")
		}
		terms, err := parseFilter(path[begin+1 : end])
		if err != nil {
			return err
		}
		c.filter, path = terms, path[:begin]+path[end+1:]
	}
	c.attribute, c.sub, _ = strings.Cut(strings.ToLower(path), ".")
	return nil
}

// member returns a member of an object, whose name may be in either case.
func member(object map[string]any, name string) any {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if strings.EqualFold(key, name) {
			return object[key]
		}
	}
	return nil
}

// single returns the value of a change, without the list and the object that Entra writes around
// some.
func (c *change) single() any {
	if c.remove {
		return nil
	}
	v := c.value
	if values, ok := v.([]any); ok && len(values) == 1 {
		v = values[0]
	}
	if object, ok := v.(map[string]any); ok {
		v = member(object, "value")
	}
	return v
}

// text returns the value as a text, empty if there is none.
func (c *change) text() (string, error) {
	switch v := c.single().(type) {
	case nil:
		return "", nil
	case string:
		if len(v) > maxText {
			return "", invalid(invalidValue, "a value has more than %d bytes", maxText)
		}
		return v, nil
	}
	return "", invalid(invalidValue, "a value is not a text")
}

// flag returns the value as a boolean, which Entra sends as a text.
func (c *change) flag() (bool, error) {
	switch v := c.single().(type) {
	case bool:
		return v, nil
	case string:
		if strings.EqualFold(v, "true") {
			return true, nil
		}
		if strings.EqualFold(v, "false") {
			return false, nil
		}
	}
	return false, invalid(invalidValue, "a value is neither true nor false")
}

// objects returns the value as a list of objects.
func (c *change) objects() (out []map[string]any, err error) {
	values, ok := c.value.([]any)
	if !ok && c.value != nil {
		values = []any{c.value}
	}
	for _, v := range values {
		object, ok := v.(map[string]any)
		if !ok {
			return nil, invalid(invalidValue, "a value is not an object")
		}
		out = append(out, object)
	}
	return out, nil
}
