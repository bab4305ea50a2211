package settings

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// testSection has a setting of every kind.
type testSection struct {
	Name     string            `key:"name" required:"yes" example:"x"`
	Level    string            `key:"level" default:"low" enum:"low,high"`
	Size     int64             `key:"size" is:"bytes" default:"64MiB" minimum:"1KiB" example:"1MiB"`
	Wait     time.Duration     `key:"wait" default:"5s" restart:"yes"`
	Count    int               `key:"count" minimum:"1" maximum:"10"`
	Share    float64           `key:"share" minimum:"0" maximum:"1"`
	File     string            `key:"file" is:"file"`
	Code     string            `key:"code" pattern:"^[a-z]{0,2}$" form:"a code" example:"ab"`
	Tags     []string          `key:"tags" maxItems:"2"`
	Labels   map[string]string `key:"labels"`
	Networks []netip.Prefix    `key:"networks"`
	Secret   secret.String     `key:"secret"`
	Inner    *testSection      `key:"inner"`

	checked, settled int
}

func (s *testSection) Check(at *At) {
	s.checked++
	if s.Name == "refused" {
		at.Wrong("inner.name", "is not for refused")
	}
}
func (s *testSection) Settle(*At) { s.settled++ }

func (s *testSection) FromText(text string) { s.Name = text }

type testRoot struct {
	One   testSection            `key:"one"`
	Two   *testSection           `key:"two"`
	List  []testSection          `key:"list"`
	Table Table[testSection]     `key:"table"`
	Map   map[string]testSection `key:"map"`
}

func readTest(text string, overrides ...Override) (*testRoot, Listing, error) {
	f, root := NewFile("dir/x.yaml", func(string) (string, bool) { return "", false }), new(testRoot)
	tree := f.Parse([]byte(text))
	for _, o := range overrides {
		tree.Override(o)
	}
	f.Defaults(root)
	f.Decode(tree, root)
	if err := f.Err(); err != nil {
		return nil, Listing{}, err
	}
	return root, f.List(tree, root), nil
}

// TestSections reads sections in every place: used as they are, with defaults, checked once and settled once.
func TestSections(t *testing.T) {
	c, list, err := readTest("one: {name: a, level: high, size: 1MiB, wait: 1m, count: 3, share: 0.5, file: f, code: ab, tags: [x], networks: [10.1.0.0/8]}\n"+
		"list: [b, {name: c}]\ntable: {d: {name: d}}\nmap: {e: {name: e, inner: {name: i}}}\n", Override{Source: "--tags", Key: "one.tags", Value: "y, z"}, Override{Source: "--file", Key: "map.e.file", Value: "g"})
	if err != nil {
		t.Fatal(err)
	}
	all := []testSection{c.One, c.List[0], c.List[1], c.Table[0].Value, c.Map["e"], *c.Map["e"].Inner}
	for _, s := range all {
		if s.checked != 1 || s.settled != 1 || s.Size == 0 || s.Wait == 0 {
			t.Errorf("%s: %+v", s.Name, s)
		}
	}
	if c.Two != nil || c.One.Size != 1<<20 || c.One.File != "dir/f" || c.Map["e"].File != "g" || !slices.Equal(c.One.Tags, []string{"y", "z"}) || c.One.Networks[0].String() != "10.1.0.0/8" || c.List[0].Level != "low" {
		t.Errorf("%+v", c)
	}
	values := maps.Collect(list.Values())
	for key, want := range map[string]string{"one.size": "1MiB", "one.wait": "1m", "one.file": "f", "one.tags": "[y, z]", "list[0].name": "b", "table.d.level": "low", "map.e.inner.wait": "5s", "two.size": ""} {
		if values[key] != want {
			t.Errorf("%s is listed as %q, want %q", key, values[key], want)
		}
	}
	_, other, err := readTest("one: {name: a, wait: 2m}\nlist: [b, {name: c}]\ntable: {d: {name: d}}\nmap: {e: {name: e, inner: {name: i}}}\n")
	if keys := list.StartsOtherwise(&other); err != nil || !slices.Equal(keys, []string{"one.wait"}) {
		t.Errorf("%v: %v", keys, err)
	}
}

// TestProblems checks the message of each tag's check, and of a section's own.
func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		"one: {name: a, level: hgh}":             `one.level: "hgh" is not known; did you mean "high"?`,
		"one: {name: a, size: 1B}":               "one.size: is less than 1KiB; write at least that, such as 1MiB",
		"one: {name: a, count: 11}":              "one.count: is 11; write a number from 1 to 10",
		"one: {name: a, share: nan}":             "one.share: is nan; write a number from 0 to 1",
		"one: {name: a, code: abc}":              `one.code: "abc" is not a code; write one such as ab`,
		"one: {name: a, tags: [a, b, c]}":        "one.tags: has 3 items; write at most 2",
		"one: {name: a, networks: [a]}":          `one.networks[0]: "a" is no network; write one such as 10.0.0.0/8`,
		"one: {level: low}":                      "one.name: is required; write one such as x",
		"one: {name: refused}":                   "one.inner.name: is not for refused",
		"one: {name: refused, inner: {name: a}}": "one.inner.name: is not for refused",
		"one: {name: a, secret: [CANARY]}":       "one.secret: is a list; write one value",
		"list: [{}]":                             "list[0].name: is required; write one such as x",
		"map: {a: }":                             "map.a.name: is required; write one such as x",
		"table: {a: }":                           "table.a.name: is required; write one such as x",
		"one: {name: a, nam: b}":                 `one.nam: is not a known key; did you mean "name"?`,
	} {
		if _, _, err := readTest(text); err == nil || err.Error() != "dir/x.yaml:1: "+want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if c, _, err := readTest("one:\ntwo:\n"); err != nil || c.One.checked != 0 || c.Two != nil {
		t.Errorf("sections without a value: %+v, %v", c, err)
	}
	if _, _, err := readTest("one: {name: a, secret: CANARY, wait: x}"); err == nil || strings.Contains(err.Error(), "CANARY") {
		t.Error(err)
	}
}
