package protocol

import (
	"testing"
)

func TestNames(t *testing.T) {
	seen := map[Name]bool{}
	for _, n := range Names() {
		if n == "" || seen[n] {
			t.Errorf("%q is empty or twice in the list", n)
		}
		seen[n] = true
	}
}
