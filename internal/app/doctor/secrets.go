package doctor

import (
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// Placeholder takes the place of variables that are not set here, so that the rest of a file can be checked.
const Placeholder = "placeholder-of-a-variable"

// unset reports whether a variable in one of the texts is not set here.
func unset(texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, Placeholder) })
}

// unsetResult says that something cannot be checked without its variable.
func unsetResult(what string) []Result {
	return one(Skipped, "set the variable that the file line names; a service has its variables in its unit or its environment file", "a variable in %s is not set here", what)
}

// secrets returns the secrets of the configuration.
func (in *Installation) secrets() (list []string) {
	if in.Config == nil {
		return nil
	}
	list = secretsIn(reflect.ValueOf(in.Config), 0)
	for _, p := range in.Config.Providers {
		list = append(list, p.Secrets()...)
	}
	return list
}

// maxDepth of the values of a configuration.
const maxDepth = 16

// secretsIn returns the secrets below a value, in its exported fields.
func secretsIn(v reflect.Value, depth int) (list []string) {
	if depth > maxDepth || !v.IsValid() {
		return nil
	}
	if v.Type() == reflect.TypeFor[secret.String]() {
		return secretParts(v.String())
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return secretsIn(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				list = append(list, secretsIn(v.Field(i), depth+1)...)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			list = append(list, secretsIn(v.Index(i), depth+1)...)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			list = append(list, secretsIn(v.MapIndex(key), depth+1)...)
		}
	}
	return list
}

// secretParts returns what is secret in a text: the password and the query of an address, or all of another text.
func secretParts(text string) []string {
	if !strings.Contains(text, "://") && !strings.HasPrefix(text, "sqlite:") {
		return []string{text}
	}
	u, err := url.Parse(text)
	if err != nil {
		return []string{text}
	}
	var list []string
	if password, ok := u.User.Password(); ok {
		list = append(list, password)
	}
	for _, values := range u.Query() {
		for _, v := range values {
			if len(v) > 20 { // others are settings, such as sslmode=disable
				list = append(list, v)
			}
		}
	}
	return list
}
