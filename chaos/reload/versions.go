package reload

import (
	"fmt"
	"strings"
)

// good is a configuration that tells its number by the name of a model.
func good(upstream string, n int) string {
	return fmt.Sprintf("providers:\n  up: { protocol: openai-chat, base_url: %q }\nmodels:\n  fast: { targets: [up/m%d] }\n  only-%d: { targets: [up/m%d] }\n", upstream, n, n, n)
}

// version is a configuration with a name for it.
type version struct{ name, text string }

// poisons are what programs that write configurations have written in the field.
func poisons(upstream string) []version {
	text := good(upstream, 0)
	return []version{
		{"an empty file", ""},
		{"a blank address", strings.Replace(text, fmt.Sprintf("%q", upstream), `""`, 1)},
		{"a blank list", strings.Replace(text, "targets: [up/m0]", "targets:", 1)},
		{"ten times the size", strings.Repeat(text, 10)},
		{"a name twice", text + "  fast: { targets: [up/other] }\n"},
		{"broken YAML", text[:len(text)-6]},
		{"no text", "\x00\x00\x00\x00"},
	}
}
