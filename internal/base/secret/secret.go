// Package secret holds a string that must not be printed.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// String is a credential. Every way of printing or marshalling it gives three
// asterisks; Reveal is the only way to its text.
type String string

const hidden = "***"

// Reveal returns the text. Call it where the credential is used and nowhere else.
func (s String) Reveal() string { return string(s) }

// String hides the text.
func (s String) String() string { return hidden }

// Format hides the text from every verb; without it %d would print the text in
// its complaint about the type.
func (s String) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText hides the text from JSON, YAML and flags.
func (s String) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the text from slog.
func (s String) LogValue() slog.Value { return slog.StringValue(hidden) }
