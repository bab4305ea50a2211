package settings

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// YAML does not allow braces in a plain value inside braces, so {api_key: ${KEY}} is
// not valid YAML. While the syntax is parsed, the braces of variables are therefore
// replaced by two Unicode noncharacters, which are reserved for internal use.
const shieldOpen, shieldClose = "\ufdd0", "\ufdd1"

// shieldVariables replaces the braces of variables. It skips a variable whose default
// contains YAML syntax; such a value needs quotes.
func shieldVariables(s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	variable := regexp.MustCompile(`\$\{((?:FILE:|[A-Za-z_][A-Za-z0-9_]*:-)[^{}"'\\#\r\n]*|[A-Za-z_][A-Za-z0-9_]*)\}`)
	return variable.ReplaceAllString(s, "$$"+shieldOpen+"$1"+shieldClose)
}

func unshieldVariables(s string) string {
	if !strings.Contains(s, shieldOpen) {
		return s
	}
	return strings.NewReplacer(shieldOpen, "{", shieldClose, "}").Replace(s)
}

// expand replaces ${VAR}, ${VAR:-text}, ${FILE:path} and $$ in a value. Any other dollar
// sign stays.
func (f *File) expand(s string) (string, error) {
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
			value, err := f.lookup(name)
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

func (f *File) lookup(spec string) (string, error) {
	if path, ok := strings.CutPrefix(spec, "FILE:"); ok {
		return f.readFile(path)
	}
	name, fallback, has := strings.Cut(spec, ":-")
	if !isVariable(name) {
		return "", fmt.Errorf("has an invalid variable name in \"${...}\"; write \"${NAME}\", or \"$$\" for a dollar sign")
	}
	value, set := f.Env(name)
	if has && value == "" {
		return fallback, nil
	}
	if !set {
		return "", fmt.Errorf("needs the environment variable %s, which is not set; set it, or write \"${%s:-default}\"", name, name)
	}
	return value, nil
}

// readFile returns the contents of a file without the line break at its end.
func (f *File) readFile(path string) (string, error) {
	text, err := secret.ReadFile(f.path(path))
	if err != nil {
		return "", fmt.Errorf("needs a file: %w; create it, or write another path in \"${FILE:path}\"", err)
	}
	return text.Reveal(), nil
}

// referencedFile returns the file of a value that is written as ${FILE:path} and nothing
// else as it is written, or "".
func (n *Node) referencedFile() string {
	if n == nil || n.Kind != Scalar {
		return ""
	}
	rest, ok := strings.CutPrefix(n.Written, "${FILE:")
	if path, found := strings.CutSuffix(rest, "}"); ok && found && !strings.Contains(path, "}") {
		return path
	}
	return ""
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
