// Package rule has the checks that struct tags ask for: those of settings and those of the admin API.
package rule

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Rule is a set of checks. Its members are keywords of JSON Schema, and the tags have their names.
type Rule struct {
	Pattern   string   `json:"pattern,omitempty"`
	Enum      []string `json:"enum,omitempty"`
	Default   *int64   `json:"default,omitzero"` // for a document; Read does not set it
	Minimum   *int64   `json:"minimum,omitzero"`
	Maximum   *int64   `json:"maximum,omitzero"`
	MinLength *int64   `json:"minLength,omitzero"`
	MaxLength *int64   `json:"maxLength,omitzero"`
	MaxItems  *int64   `json:"maxItems,omitzero"`

	pattern *regexp.Regexp
}

// Read adds the checks of a struct field. Numbers are read by parse, such as Integer. A tag that cannot be read is a
// mistake in the program.
func (r *Rule) Read(f reflect.StructField, parse func(string) (int64, error)) {
	if enum, ok := f.Tag.Lookup("enum"); ok {
		r.Enum = strings.Split(enum, ",")
	}
	if pattern, ok := f.Tag.Lookup("pattern"); ok {
		r.Pattern, r.pattern = pattern, regexp.MustCompile(pattern)
	}
	for keyword, to := range map[string]**int64{
		"minimum": &r.Minimum, "maximum": &r.Maximum, "minLength": &r.MinLength, "maxLength": &r.MaxLength, "maxItems": &r.MaxItems,
	} {
		if text, ok := f.Tag.Lookup(keyword); ok {
			n, err := parse(text)
			if err != nil {
				panic("rule: the tag " + keyword + " of " + f.Name + ": " + err.Error())
			}
			*to = &n
		}
	}
}

// TakeText removes the checks of the items of a list of texts, and returns them.
func (r *Rule) TakeText() Rule {
	item := Rule{Pattern: r.Pattern, Enum: r.Enum, pattern: r.pattern}
	r.Pattern, r.Enum, r.pattern = "", nil, nil
	return item
}

// Integer reads a number of a tag.
func Integer(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

// Number returns what a number would have to be, or "" if it is.
func (r *Rule) Number(v float64) string {
	switch {
	case r.Minimum != nil && !(v >= float64(*r.Minimum)):
		return "at least " + strconv.FormatInt(*r.Minimum, 10)
	case r.Maximum != nil && !(v <= float64(*r.Maximum)):
		return "at most " + strconv.FormatInt(*r.Maximum, 10)
	}
	return ""
}

// Text returns what a text would have to be, or "" if it is.
func (r *Rule) Text(v string) string {
	length := int64(utf8.RuneCountInString(v))
	switch {
	case r.MinLength != nil && length < *r.MinLength:
		return "at least " + strconv.FormatInt(*r.MinLength, 10) + " characters"
	case r.MaxLength != nil && length > *r.MaxLength:
		return "at most " + strconv.FormatInt(*r.MaxLength, 10) + " characters"
	case r.pattern != nil && !r.pattern.MatchString(v):
		return "text that matches " + r.Pattern
	case r.Enum != nil && !slices.Contains(r.Enum, v):
		return "one of " + strings.Join(r.Enum, ", ")
	}
	return ""
}

// Items returns how many items a list would have to have, or "" if it has.
func (r *Rule) Items(n int) string {
	if r.MaxItems != nil && int64(n) > *r.MaxItems {
		return "at most " + strconv.FormatInt(*r.MaxItems, 10) + " items"
	}
	return ""
}
