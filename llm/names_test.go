package llm

import (
	"strings"
	"testing"
)

func TestSafeNameKeepsValidNames(t *testing.T) {
	for _, name := range []string{"a", "get_weather", "A-1_b", strings.Repeat("x", 64)} {
		if got := SafeName(name, 64, WordByte); got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
}

// Names that differ only in replaced bytes stay different, CRQ-32.
func TestSafeNameKeepsNamesDifferent(t *testing.T) {
	long := strings.Repeat("mcp__server__", 8)
	names := []string{"", "_", "a.b", "a/b", "a b", "a_b", "a:b", "a\xffb", "a\xfeb", "ä", "ö", "日本", "a..b", long + "read", long + "write", strings.Repeat("x", 65), strings.Repeat("x", 66)}
	alnum := func(b byte) bool { return WordByte(b) && b != '_' && b != '-' }
	for _, c := range []struct {
		limit int
		ok    func(byte) bool
	}{{64, WordByte}, {128, WordByte}, {12, WordByte}, {9, alnum}, {64, alnum}} {
		seen := map[string]string{}
		for _, name := range names {
			got := SafeName(name, c.limit, c.ok)
			if got == "" || len(got) > c.limit {
				t.Errorf("%q became %q, which is not 1 to %d bytes long", name, got, c.limit)
			}
			for i := range len(got) {
				if !c.ok(got[i]) {
					t.Errorf("%q became %q, which has a bad byte", name, got)
				}
			}
			if other, taken := seen[got]; taken {
				t.Errorf("%q and %q both became %q", name, other, got)
			}
			seen[got] = name
			if again := SafeName(name, c.limit, c.ok); again != got {
				t.Errorf("%q became %q and then %q", name, got, again)
			}
			if fixed := SafeName(got, c.limit, c.ok); fixed != got {
				t.Errorf("%q is safe and became %q", got, fixed)
			}
		}
	}
}

// Conversations contain names from earlier releases, so the result must not change.
func TestSafeNameIsStable(t *testing.T) {
	for name, want := range map[string]string{"a.b": "a_b_2e7336dc8e", "": "_e3b0c44298"} {
		if got := SafeName(name, 64, WordByte); got != want {
			t.Errorf("%q became %q, want %q", name, got, want)
		}
	}
}

func TestMintID(t *testing.T) {
	ids := map[string]bool{}
	for _, parts := range [][]string{{"a"}, {"a", ""}, {"", "a"}, {"a", "b"}, {"ab"}, {}} {
		id := MintID("call_", parts...)
		if !strings.HasPrefix(id, "call_") || len(id) != len("call_")+24 || id != MintID("call_", parts...) {
			t.Errorf("%q", id)
		}
		ids[id] = true
	}
	if len(ids) != 6 {
		t.Errorf("%d ids for 6 inputs", len(ids))
	}
}
