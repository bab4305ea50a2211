package access

import "testing"

// TestMintAgain checks that a rotated key keeps its id and gets another secret.
func TestMintAgain(t *testing.T) {
	id, sec, text := Mint(EnvLive)
	next, whole := MintAgain(EnvLive, id)
	got, parsed, ok := Parse(whole.Reveal())
	if !ok || got != id || parsed != next || next == sec || whole == text {
		t.Error("the key is not the same, or its secret is")
	}
}
