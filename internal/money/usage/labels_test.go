package usage

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestLabelsAdd(t *testing.T) {
	for _, c := range []struct {
		key, value string
		ok         bool
	}{
		{"team", "search", true}, {"Team", "again", true}, {"a.b-c_9", "x", true}, {strings.Repeat("k", 32), strings.Repeat("v", 64), true},
		{"city", "Zürich 首", true}, {"quote", `a'b"c;--`, true},
		{"", "x", false}, {"team", "", false}, {strings.Repeat("k", 33), "v", false}, {"k", strings.Repeat("v", 65), false}, {"k", strings.Repeat("é", 33), false},
		{"a b", "v", false}, {"a=b", "v", false}, {"tag:team", "v", false}, {"é", "v", false}, {"K", "v", true}, {"\u212a2", "v", true}, // a Kelvin sign is a k in lower case
		{"k", "a\nb", false}, {"k", "a\x00b", false}, {"k", "a\x7fb", false}, {"k", "\u202e", false}, {"k", "\xff", false}, {"k", "\u200b", false},
	} {
		var l Labels
		if ok := l.Add(c.key, c.value); ok != c.ok || len(l.Tags) == 1 != ok || ok && (l.Tags[0] != Tag{strings.ToLower(c.key), c.value}) {
			t.Errorf("%q=%q: %t, %q", c.key, c.value, ok, l.Tags)
		}
	}
	l := Labels{}
	for i := range 20 {
		if ok := l.Add(fmt.Sprint("k", i), "v"); ok != (i < MaxTags) {
			t.Errorf("tag %d: %t", i, ok)
		}
	}
	if !l.Add("K0", "other") || l.Tags[0].Value != "v" || len(l.Tags) != MaxTags {
		t.Errorf("%q", l.Tags)
	}
	for user, want := range map[string]bool{"u": true, strings.Repeat("u", 128): true, strings.Repeat("u", 129): false, "": false, "a\tb": false, "ann@example.com": true} {
		if ok := l.SetUser(user); ok != want {
			t.Errorf("%q: %t", user, ok)
		}
	}
}

func TestBoundLabels(t *testing.T) {
	l := Labels{User: "a\x00", Tags: []Tag{{"Team", "a"}, {"team", "b"}, {"x y", "c"}, {"z", "d"}}}
	if got, want := BoundLabels(l), (Labels{Tags: []Tag{{"team", "a"}, {"z", "d"}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if n := testing.AllocsPerRun(10, func() { _ = BoundLabels(Labels{}) }); n != 0 {
		t.Errorf("%v allocations without labels", n)
	}
}

func TestLabelRules(t *testing.T) {
	all, some := LabelRules{}, LabelRules{Keys: []string{"team"}}
	if !all.Records("x", false) || all.Records("x", true) || some.Records("x", false) || !some.Records("Team", false) || !some.Records("team", true) {
		t.Error("a key is recorded that should not be, or the other way round")
	}
	plain, one, other := LabelRules{Users: PlainUsers}, LabelRules{Users: HashedUsers, Secret: []byte("1")}, LabelRules{Users: HashedUsers, Secret: []byte("2")}
	if same := (LabelRules{Users: HashedUsers, Secret: []byte("1")}); plain.Name("ann") != "ann" || one.Name("ann") != same.Name("ann") || one.Name("ann") == one.Name("bob") || one.Name("ann") == other.Name("ann") || len(one.Name("ann")) != 32 {
		t.Error(one.Name("ann"))
	}
}
