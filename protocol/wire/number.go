package wire

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Number is the JSON text of a number, so that 1.10 stays 1.10. Some servers write
// counts as strings. A Number keeps the quotes of such a string and its methods ignore
// them.
type Number string

// Int returns the Number for n.
func Int(n int64) Number { return Number(strconv.FormatInt(n, 10)) }

// IntFromPtr returns an Opt that holds *n. It is absent if n is nil.
func IntFromPtr(n *int64) Opt[Number] {
	if n == nil {
		return Opt[Number]{}
	}
	return Some(Int(*n))
}

// Int64 returns the number as an integer. 1e2 and 1.0 are integers. It returns an error
// for 1.5 and for a number that does not fit into 64 bits.
func (n Number) Int64() (int64, error) {
	text := n.digits()
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	// Beyond 2^53 a float64 is not exact.
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, fmt.Errorf("%s is not a 64-bit integer", n)
	}
	return int64(f), nil
}

// Float64 returns the number as a float64.
func (n Number) Float64() (float64, error) {
	f, err := strconv.ParseFloat(n.digits(), 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a 64-bit float", n)
	}
	return f, nil
}

// MarshalJSON returns the text unchanged.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.valid() {
		return nil, fmt.Errorf("%q is not a number", string(n))
	}
	return []byte(n), nil
}

// UnmarshalJSON keeps the text unchanged.
func (n *Number) UnmarshalJSON(b []byte) error {
	if !Number(b).valid() {
		return fmt.Errorf("%s is not a number", b)
	}
	*n = Number(b)
	return nil
}

// Count is a non-negative integer. Some servers write it as a string or as a float
// (JSN-18). Any other value decodes as 0.
type Count int64

// ParseCount returns the count of a JSON value.
func ParseCount(raw Raw) Count {
	if len(raw) == 0 {
		return 0
	}
	digits := Number(raw).digits()
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return Count(max(n, 0))
	}
	if f, err := strconv.ParseFloat(digits, 64); err == nil && f > 0 && f < 1<<62 {
		return Count(f)
	}
	return 0
}

// UnmarshalJSON never returns an error.
func (c *Count) UnmarshalJSON(b []byte) error {
	*c = ParseCount(b)
	return nil
}

// TokenCount is a Count of tokens, or NoCount if the value is a number that cannot be one:
// negative, or too large. Usage with such a number is not usage of zero tokens.
type TokenCount int64

// NoCount is the value of an impossible number of tokens.
const NoCount TokenCount = -1

// ParseTokenCount returns the number of tokens of a JSON value.
func ParseTokenCount(raw Raw) TokenCount {
	if n := ParseCount(raw); n > 0 || string(raw) == "0" {
		return TokenCount(n)
	}
	if f, err := strconv.ParseFloat(Number(raw).digits(), 64); f < 0 || f > 1 || errors.Is(err, strconv.ErrRange) {
		return NoCount
	}
	return 0
}

// UnmarshalJSON never returns an error.
func (t *TokenCount) UnmarshalJSON(b []byte) error {
	*t = ParseTokenCount(b)
	return nil
}

func (n Number) digits() string {
	if len(n) > 1 && n[0] == '"' && n[len(n)-1] == '"' {
		return string(n[1 : len(n)-1])
	}
	return string(n)
}

func (n Number) valid() bool {
	text := n.digits()
	if isPlainInt(text) {
		return true
	}
	raw := Raw(text)
	// IsValid accepts white space around the value.
	return raw.Kind() == '0' && raw.IsValid() && strings.TrimSpace(text) == text
}

// isPlainInt reports whether text is a non-negative integer without sign, fraction or
// exponent. It is a fast path for valid.
func isPlainInt(text string) bool {
	if text == "" || text[0] == '0' && len(text) > 1 {
		return false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}
