package llm

import (
	"reflect"
	"testing"
)

// TestUnits checks the table: names, keys and labels are unique, a parent comes before its parts, and the units with
// a field are those of Usage.
func TestUnits(t *testing.T) {
	seen := map[string]bool{}
	for i, u := range Units() {
		for _, text := range []string{"name " + u.Name, "key " + u.Key, "label " + u.Label} {
			if seen[text] {
				t.Errorf("two units have the %s", text)
			}
			seen[text] = true
		}
		if u.Name == "" || u.Key == "" || u.Label == "" {
			t.Errorf("%+v has no name, key or label", u)
		}
		if parent := ParentOf(i); (parent >= 0) != (u.Parent != "") || parent >= i || parent >= 0 && u.Total != NoTotal {
			t.Errorf("%+v has a parent that is not before it, or a total that its parent has too", u)
		}
		var use Usage
		*use.At(i) = 1
		if counted := use.TotalInput() + use.TotalOutput(); (counted == 1) != (u.Total != NoTotal) {
			t.Errorf("%+v adds %d to the totals", u, counted)
		}
	}
	if fields := reflect.TypeFor[Usage]().NumField(); fields != FieldCount+1 || len(Units()) != UnitCount {
		t.Errorf("Usage has %d fields for %d of %d units", fields, FieldCount, len(Units()))
	}
}

// TestUsageSums checks that sums, differences and parts have all units.
func TestUsageSums(t *testing.T) {
	var one, two Usage
	for i := range UnitCount {
		*one.At(i), *two.At(i) = int64(1+i), int64(10*i)
	}
	sum := one.Add(two)
	for i := range UnitCount {
		if *sum.At(i) != int64(1+11*i) {
			t.Errorf("the sum of unit %d is %d", i, *sum.At(i))
		}
	}
	if back := sum.Sub(two); back != one {
		t.Errorf("the difference is %+v, want %+v", back, one)
	}
	if in := one.Of(InputTotal); in.Output != 0 || in.TotalInput() != one.TotalInput() || *in.At(CacheWrite1h) != *one.At(CacheWrite1h) {
		t.Errorf("the input of %+v is %+v", one, in)
	}
}
