package scim

import (
	"strings"

	"github.com/go-json-experiment/json"
)

const (
	maxFilter = 1024 // bytes
	maxTerms  = 4
)

// term is a condition of a filter: an attribute, in lower case, that equals a value.
type term struct{ attribute, value string }

// parseFilter reads a filter: attribute eq "value", several of them joined by and.
func parseFilter(text string) (terms []term, err error) {
	if len(text) > maxFilter {
		return nil, invalid(invalidFilter, "the filter has more than %d bytes", maxFilter)
	}
	for rest := strings.TrimSpace(text); ; {
		var t term
		if t, rest, err = parseTerm(rest); err != nil {
			return nil, err
		}
		if terms = append(terms, t); len(terms) > maxTerms {
			return nil, invalid(invalidFilter, "the filter has more than %d conditions", maxTerms)
		}
		if rest == "" {
			return terms, nil
		}
		word, after, ok := strings.Cut(rest, " ")
		if !ok || !strings.EqualFold(word, "and") {
			return nil, errFilter()
		}
		rest = strings.TrimSpace(after)
	}
}

// parseTerm reads one condition and returns the rest of the text.
func parseTerm(text string) (t term, rest string, err error) {
	attribute, after, _ := strings.Cut(text, " ")
	operator, value, ok := strings.Cut(strings.TrimSpace(after), " ")
	if !ok || !strings.EqualFold(operator, "eq") {
		return t, "", errFilter()
	}
	value = strings.TrimSpace(value)
	end := len(value)
	if strings.HasPrefix(value, `"`) {
		end = 1
		for end < len(value) && value[end] != '"' {
			if value[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(value))
		if json.Unmarshal([]byte(value[:end]), &t.value) != nil {
			return t, "", errFilter()
		}
	} else { // a boolean
		if space := strings.IndexByte(value, ' '); space >= 0 {
			end = space
		}
		if t.value = strings.ToLower(value[:end]); t.value != "true" && t.value != "false" {
			return t, "", errFilter()
		}
	}
	t.attribute = strings.ToLower(trimSchema(attribute))
	return t, strings.TrimSpace(value[end:]), nil
}

func errFilter() error {
	return invalid(invalidFilter, `the filter is not supported; use one such as userName eq "ann", or several joined by and`)
}

// trimSchema removes the URI of a core schema before an attribute.
func trimSchema(attribute string) string {
	for _, schema := range []string{userSchema, groupSchema} {
		if len(attribute) > len(schema) && strings.EqualFold(attribute[:len(schema)], schema) && attribute[len(schema)] == ':' {
			return attribute[len(schema)+1:]
		}
	}
	return attribute
}
