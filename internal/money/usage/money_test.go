package usage

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestMoneyText(t *testing.T) {
	for _, c := range []struct {
		text string
		want Money
		show string
	}{
		{"0", 0, "$0"},
		{"0.000123456", 123456, "$0.000123456"},
		{"12.5", 12_500_000_000, "$12.5"},
		{"100", 100 * Dollar, "$100"},
		{"-3.10", -3_100_000_000, "-$3.1"},
		{"0.0375000000000", 37_500_000, "$0.0375"},
		{"9223372036.854775799", math.MaxInt64 - 8, "$9223372036.854775799"},
	} {
		got, err := ParseMoney(c.text)
		if err != nil || got != c.want {
			t.Errorf("ParseMoney(%q) = %d, %v; want %d", c.text, got, err, c.want)
		}
		if got.String() != c.show {
			t.Errorf("%d shows as %q, want %q", got, got, c.show)
		}
	}
	if got := Money(math.MinInt64).String(); got != "-$9223372036.854775808" {
		t.Errorf("the least amount shows as %q", got)
	}
	for _, text := range []string{"", ".", "1.", ".5", "1e3", "1,5", " 1", "+1", "--1", "0.0000000001", "99999999999", "$1", "0x1", "NaN", "١"} {
		if got, err := ParseMoney(text); err == nil {
			t.Errorf("ParseMoney(%q) = %d, want an error", text, got)
		}
	}
	if _, err := ParseRate("-1"); err == nil {
		t.Error("a rate below zero was taken")
	}
}

func TestMoneyIsChecked(t *testing.T) {
	const most, least = Money(math.MaxInt64), Money(math.MinInt64)
	for _, c := range []struct {
		a, b Money
		ok   bool
	}{{1, 2, true}, {-1, 1, true}, {most, 0, true}, {most, 1, false}, {least, -1, false}, {most, least, true}, {1, most, false}} {
		if got, err := c.a.Add(c.b); (err == nil) != c.ok || c.ok && got != c.a+c.b {
			t.Errorf("%d + %d = %d, %v", c.a, c.b, got, err)
		}
	}
	for _, c := range []struct {
		a  Money
		n  int64
		ok bool
	}{{3, 4, true}, {-3, 4, true}, {most, 1, true}, {most, -1, true}, {least, 1, true}, {least, -1, false}, {most, 2, false}, {0, math.MinInt64, true}, {1 << 40, 1 << 40, false}} {
		got, err := c.a.Mul(c.n)
		if (err == nil) != c.ok || c.ok && got != c.a*Money(c.n) || !c.ok && !errors.Is(err, ErrOverflow) {
			t.Errorf("%d × %d = %d, %v", c.a, c.n, got, err)
		}
	}
}

func rate(t testing.TB, text string) Rate {
	t.Helper()
	r, err := ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCost(t *testing.T) {
	p := Price{Input: rate(t, "1.25"), CacheRead: rate(t, "0.0375"), CacheWrite: rate(t, "1.5"), Output: rate(t, "10"), Reasoning: rate(t, "12")}
	long := p
	long.Above, long.Long = 100, &Price{Input: rate(t, "2"), CacheRead: rate(t, "2"), Output: rate(t, "20")}
	fee := p
	fee.Request = Dollar
	for _, c := range []struct {
		name  string
		price Price
		use   llm.Usage
		want  Money
	}{
		{"nothing", p, llm.Usage{}, 0},
		{"a million in", p, llm.Usage{Input: 1e6}, 1_250_000_000},
		{"each class at its own rate", p, llm.Usage{Input: 1000, CacheRead: 1000, CacheWrite: 1000, Output: 1000, Reasoning: 1000}, 1_250_000 + 37_500 + 1_500_000 + 10_000_000 + 12_000_000},
		{"rounded up once", p, llm.Usage{CacheRead: 1, Input: 0}, 38},
		{"and not for each class", Price{Input: 1, Output: 1}, llm.Usage{Input: 1, Output: 1}, 1},
		{"at the border", long, llm.Usage{Input: 60, CacheRead: 40}, 60*1250 + 1500},
		{"a long prompt", long, llm.Usage{Input: 60, CacheRead: 41, Output: 1}, 101*2000 + 20_000},
		{"a fee", fee, llm.Usage{}, Dollar},
	} {
		if got, err := c.price.Cost(c.use); err != nil || got != c.want {
			t.Errorf("%s: %d, %v; want %d", c.name, got, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		price Price
		use   llm.Usage
	}{
		"too much":        {p, llm.Usage{Output: math.MaxInt64}},
		"tokens below 0":  {p, llm.Usage{Input: -1}},
		"a rate below 0":  {Price{Input: -1}, llm.Usage{Input: 1}},
		"a fee below 0":   {Price{Request: -1}, llm.Usage{}},
		"a fee too large": {Price{Input: 1e9, Request: math.MaxInt64}, llm.Usage{Input: 1}},
	} {
		if got, err := c.price.Cost(c.use); err == nil {
			t.Errorf("%s: cost %d, want an error", name, got)
		}
	}
}

// FuzzCost compares the cost with arbitrary-precision arithmetic.
func FuzzCost(f *testing.F) {
	f.Add(int64(1), int64(2), int64(3), int64(4), int64(5), int64(1.25e9), int64(1e10))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, in, read, write, out, think, cheap, dear int64) {
		p := Price{Input: Rate(cheap), CacheRead: Rate(cheap / 10), CacheWrite: Rate(dear / 8), Output: Rate(dear), Reasoning: Rate(dear)}
		u := llm.Usage{Input: in, CacheRead: read, CacheWrite: write, Output: out, Reasoning: think}
		got, err := p.Cost(u)
		if min(in, read, write, out, think, cheap, cheap/10, dear, dear/8) < 0 {
			if err == nil {
				t.Fatalf("%+v at %+v: cost %d, want an error", u, p, got)
			}
			return
		}
		want := new(big.Int)
		for _, c := range [][2]int64{{in, cheap}, {read, cheap / 10}, {write, dear / 8}, {out, dear}, {think, dear}} {
			want.Add(want, new(big.Int).Mul(big.NewInt(c[0]), big.NewInt(c[1])))
		}
		want.Add(want, big.NewInt(million-1)).Div(want, big.NewInt(million))
		switch {
		case !want.IsInt64():
			if !errors.Is(err, ErrOverflow) {
				t.Fatalf("%+v at %+v: %d, %v; want an overflow, for it is %s", u, p, got, err, want)
			}
		case err != nil || int64(got) != want.Int64() || got < 0:
			t.Fatalf("%+v at %+v: %d, %v; want %s", u, p, got, err, want)
		case out < math.MaxInt64:
			u.Output++
			if more, err := p.Cost(u); err == nil && more < got {
				t.Fatalf("one more token costs less: %d, then %d", got, more)
			}
		}
	})
}

func BenchmarkCost(b *testing.B) {
	p := Price{Input: rate(b, "1.25"), CacheRead: rate(b, "0.125"), Output: rate(b, "10")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Cost(llm.Usage{Input: 1200, CacheRead: 4000, Output: 380}); err != nil {
			b.Fatal(err)
		}
	}
}
