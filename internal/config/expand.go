package config

import (
	"fmt"
	"regexp"
	"strings"
)

// YAML does not allow braces in a plain value inside braces, so that
// {api_key: ${KEY}} would not be YAML. The braces of a variable are therefore
// exchanged for two code points that no text holds (Unicode's noncharacters, which
// are there for such internal use) while the syntax is read.
const shieldOpen, shieldClose = "\ufdd0", "\ufdd1"

// shieldVariables leaves a variable alone whose default could not be told from
// the syntax around it; there it needs quotes, as in any YAML.
func shieldVariables(s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	variable := regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*(?::-[^{}"'\\#\r\n]*)?)\}`)
	return variable.ReplaceAllString(s, "$$"+shieldOpen+"$1"+shieldClose)
}

func unshieldVariables(s string) string {
	if !strings.Contains(s, shieldOpen) {
		return s
	}
	return strings.NewReplacer(shieldOpen, "{", shieldClose, "}").Replace(s)
}

// expand replaces ${VAR}, ${VAR:-text} and $$ in a value. A lone dollar that
// begins none of them stays as it is.
func expand(s string, env func(string) (string, bool)) (string, error) {
	if strings.IndexByte(s, '$') < 0 {
		return s, nil
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:i])
		switch s[i+1] {
		case '$':
			b.WriteByte('$')
			s = s[i+2:]
		case '{':
			name, rest, ok := strings.Cut(s[i+2:], "}")
			if !ok {
				return "", fmt.Errorf("has \"${\" without \"}\"; write \"${NAME}\", or \"$$\" for a dollar sign")
			}
			value, err := lookup(name, env)
			if err != nil {
				return "", err
			}
			b.WriteString(value)
			s = rest
		default:
			b.WriteByte('$')
			s = s[i+1:]
		}
	}
}

func lookup(spec string, env func(string) (string, bool)) (string, error) {
	name, fallback, has := strings.Cut(spec, ":-")
	if !isVariable(name) {
		return "", fmt.Errorf("has \"${...}\" around what is no variable's name; write \"${NAME}\", or \"$$\" for a dollar sign")
	}
	value, set := env(name)
	if has && value == "" {
		return fallback, nil
	}
	if !set {
		return "", fmt.Errorf("needs the environment variable %s, which is not set; set it, or write \"${%s:-default}\"", name, name)
	}
	return value, nil
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
