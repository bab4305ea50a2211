package billing

import (
	"fmt"
	"testing"
)

func TestTokenCounter(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []int
		want   int64
	}{
		{"nothing", nil, 0},
		{"an event", []int{200}, 1},
		{"events of a token", []int{200, 203, 199, 205}, 4},
		{"a long one after short ones", []int{200, 200, 600}, 3 + 100},
		{"a long one first", []int{600, 200, 200}, 3},
		{"as long as a token can be", []int{200, 200 + maxTokenBytes}, 2},
		{"longer than that", []int{200, 200 + maxTokenBytes + 4}, 2 + 4},
		{"no bytes", []int{0, 0}, 2},
	} {
		var s tokenCounter
		for _, size := range c.events {
			s.addEvent(size)
		}
		if s.tokens != c.want {
			t.Errorf("%s: %d tokens, want %d", c.name, s.tokens, c.want)
		}
	}
}

func FuzzTokenCounter(f *testing.F) {
	f.Add([]byte{1, 2, 200})
	f.Add([]byte{255, 0, 13})
	f.Fuzz(func(t *testing.T, sizes []byte) {
		var byEvent, byText tokenCounter
		bytes := int64(0)
		for i, size := range sizes {
			before, text := byEvent.tokens, byText.tokens
			n := int(size)*3 + 1 // an event of zero bytes has no tokens
			byEvent.addEvent(n)
			byText.addText(n)
			bytes += int64(n)
			if byEvent.tokens <= before || byText.tokens <= text {
				t.Fatalf("event %d of %d bytes counts for nothing", i, n)
			}
			if byEvent.tokens > bytes || byText.tokens > bytes {
				t.Fatalf("%d and %d tokens in %d bytes", byEvent.tokens, byText.tokens, bytes)
			}
		}
		if s := fmt.Sprint(byEvent.tokens, byText.tokens); byEvent.tokens > byText.tokens {
			t.Fatal("wrapping counts as text: " + s)
		}
	})
}
