package usage

import (
	"reflect"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

// withHour returns a usage of cache writes, of which a part is for an hour.
func withHour(write, hour int64) llm.Usage {
	u := llm.Usage{Input: 10, CacheWrite: write}
	*u.At(llm.CacheWrite1h) = hour
	return u
}

// TestPartOfAUnit checks what a unit costs that another one includes.
func TestPartOfAUnit(t *testing.T) {
	tariff := Tariff{Input: "1", CacheWrite: "2", Output: "5"}
	plain, err := tariff.Price()
	if err != nil {
		t.Fatal(err)
	}
	tariff.Units = map[string]string{"cache_write_1h": "3.2"}
	dear, err := tariff.Price()
	if err != nil {
		t.Fatal(err)
	}
	tariff.Units = map[string]string{"cache_write_1h": "0"}
	free, err := tariff.Price()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		price Price
		use   llm.Usage
		want  Money
	}{
		{"without a price of its own", plain, withHour(100, 40), 10*1000 + 100*2000},
		{"with a higher price", dear, withHour(100, 40), 10*1000 + 60*2000 + 40*3200},
		{"with a price of zero", free, withHour(100, 40), 10*1000 + 60*2000},
		{"all of its parent", dear, withHour(40, 40), 10*1000 + 40*3200},
		{"more than its parent", dear, withHour(40, 99), 10*1000 + 40*3200},
		{"none", dear, withHour(100, 0), 10*1000 + 100*2000},
	} {
		if got, err := c.price.Cost(c.use); err != nil || got != c.want {
			t.Errorf("%s: %v %v, want %v", c.name, got, err, c.want)
		}
		if most, err := c.price.Most(c.use.TotalInput(), 0, llm.Amounts{}); err != nil || most < c.want {
			t.Errorf("%s: %v are reserved and %v charged, %v", c.name, most, c.want, err)
		}
	}
	if r := dear.RatesOf(withHour(1, 0)); r.Other != (OtherRates{}) {
		t.Errorf("a usage without the unit has the rates %v", r)
	}
	if r := dear.RatesOf(withHour(1, 1)); r.Of(llm.CacheWrite1h) != 3.2e9 || r.OtherPrices()["cache_write_1h"] != 3.2e9 {
		t.Errorf("the rates are %v", r)
	}
	if _, err := plain.Cost(withHour(1, -1)); err == nil {
		t.Error("a negative amount has a cost")
	}
}

// TestUnitsOfATariff checks what is wrong about the price of a unit.
func TestUnitsOfATariff(t *testing.T) {
	long := &Tariff{Input: "2", CacheWrite: "2", Output: "2", Units: map[string]string{"cache_write_1h": "2"}}
	for want, units := range map[string]map[string]string{"not known": {"cache_write_2h": "1"}, "cache_write_1h: ": {"cache_write_1h": "x"}, "lower": {"cache_write_1h": "3"}} {
		_, err := Tariff{Input: "1", CacheWrite: "1", Output: "1", Units: units, Above: 5, Long: long}.Price()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", units, err, want)
		}
	}
}

// TestMapsOfUnits checks that maps have what is not zero, and that a newer release's units are ignored.
func TestMapsOfUnits(t *testing.T) {
	var none, some llm.Amounts
	some[llm.CacheWrite1h-llm.FieldCount] = 7
	if m := MapOf(none, Name); m != nil {
		t.Errorf("no amounts are %v", m)
	}
	byName, byKey := MapOf(some, Name), MapOf(some, Key)
	if !reflect.DeepEqual(byName, map[string]int64{"cache_write_1h": 7}) || !reflect.DeepEqual(byKey, map[string]int64{"cw1h": 7}) {
		t.Errorf("%v, %v", byName, byKey)
	}
	byKey["newer"] = 9
	if got := FromMap(byKey, Key); got != some {
		t.Errorf("%v, want %v", got, some)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = MapOf(none, Name), FromMap[int64](nil, Name) }); n != 0 {
		t.Errorf("%v allocations without units", n)
	}
}
