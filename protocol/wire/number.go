package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Number is a number's JSON text, as it came: 1.10 stays 1.10. Some servers
// write counts as strings; such a Number keeps its quotation marks and is
// otherwise used like any other.
type Number string

// Int returns the Number for n.
func Int(n int64) Number { return Number(strconv.FormatInt(n, 10)) }

// Float returns the Number for f, which must be finite.
func Float(f float64) Number { return Number(jsontext.AppendFloat(nil, f, 64)) }

// Int64 returns the number as an integer. 1e2 and 1.0 are integers; 1.5 and
// what does not fit into 64 bits are errors.
func (n Number) Int64() (int64, error) {
	text := n.digits()
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	// Beyond 2^53 a float no longer names one integer.
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, fmt.Errorf("%s is not a 64-bit integer", n)
	}
	return int64(f), nil
}

// Float64 returns the number as a float.
func (n Number) Float64() (float64, error) {
	f, err := strconv.ParseFloat(n.digits(), 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a 64-bit float", n)
	}
	return f, nil
}

// MarshalJSON writes the text as it is.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.valid() {
		return nil, fmt.Errorf("%q is not a number", string(n))
	}
	return []byte(n), nil
}

// UnmarshalJSON keeps the text as it is.
func (n *Number) UnmarshalJSON(b []byte) error {
	if !Number(b).valid() {
		return fmt.Errorf("%s is not a number", b)
	}
	*n = Number(b)
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
	// Trimmed, because a valid value may be surrounded by white space.
	return raw.Kind() == '0' && raw.IsValid() && strings.TrimSpace(text) == text
}

// isPlainInt spares the common case a parser.
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
