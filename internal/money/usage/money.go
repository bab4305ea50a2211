package usage

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// ErrOverflow reports an amount that does not fit into Money.
var ErrOverflow = errors.New("usage: the amount is too large")

// places is the number of decimal places of an amount.
const places = 9

// ParseMoney parses dollars as decimal text, such as "12.5". It is exact: at most nine decimal
// places, and no exponent.
func ParseMoney(dollars string) (Money, error) {
	n, err := parseDecimal(dollars)
	return Money(n), err
}

// Decimal writes the amount in dollars as a decimal number, such as 0.50.
func (m Money) Decimal() string { return strings.Replace(m.String(), "$", "", 1) }

// String formats the exact amount without trailing zeros, such as "$0.000123456".
func (m Money) String() string {
	sign, n := "", uint64(m)
	if m < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s$%d.%09d", sign, n/uint64(Dollar), n%uint64(Dollar))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Add returns the sum, or ErrOverflow.
func (m Money) Add(n Money) (Money, error) {
	sum := m + n
	if (n > 0) != (sum > m) && n != 0 {
		return 0, ErrOverflow
	}
	return sum, nil
}

// Mul returns the amount times n, or ErrOverflow.
func (m Money) Mul(n int64) (Money, error) {
	hi, lo := bits.Mul64(magnitude(int64(m)), magnitude(n))
	limit := uint64(math.MaxInt64)
	negative := (m < 0) != (n < 0)
	if negative {
		limit++
	}
	if hi != 0 || lo > limit {
		return 0, ErrOverflow
	}
	if negative {
		return Money(-lo), nil
	}
	return Money(lo), nil
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// parseDecimal parses decimal text as billionths.
func parseDecimal(text string) (int64, error) {
	digits, negative := strings.CutPrefix(text, "-")
	whole, part, point := strings.Cut(digits, ".")
	if whole == "" || point && part == "" {
		return 0, fmt.Errorf("%q is not a decimal number; write it like 0.25", text)
	}
	if len(strings.TrimRight(part, "0")) > places {
		return 0, fmt.Errorf("%q has more than %d decimal places", text, places)
	}
	part = (part + strings.Repeat("0", places))[:places]
	var n uint64
	for _, c := range whole + part {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is not a decimal number; write it like 0.25", text)
		}
		if n > (math.MaxInt64-9)/10 {
			return 0, fmt.Errorf("%q: %w", text, ErrOverflow)
		}
		n = n*10 + uint64(c-'0')
	}
	if negative {
		return -int64(n), nil
	}
	return int64(n), nil
}
