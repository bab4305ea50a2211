package usage

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 {
		t.Error("a quantile without times")
	}
	h.Add(0) // no token
	for range 10 {
		h.Add(200 * time.Millisecond)
	}
	for range 10 {
		h.Add(3 * time.Second)
	}
	if h.Count() != 20 || h.Quantile(0.5) != 250*time.Millisecond || h.Quantile(0.25) != 175*time.Millisecond || h.Quantile(0.75) != 3500*time.Millisecond {
		t.Error(h, h.Quantile(0.5), h.Quantile(0.25), h.Quantile(0.75))
	}
	h = Histogram{}
	h.Add(time.Hour)
	if h != (Histogram{7: 1}) || h.Quantile(0.95) != 10*time.Second {
		t.Error(h, h.Quantile(0.95))
	}
	h = Histogram{}
	h.Add(100 * time.Millisecond)
	if h != (Histogram{1}) {
		t.Error(h)
	}
}

func TestBoundAgent(t *testing.T) {
	for agent, want := range map[string]string{"": "", "curl/8": "curl/8", "a\x00b\r\n\x1b[31mc\xff": "ab[31mc", "<script>é": "<script>é"} {
		if got := BoundAgent(agent); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := BoundAgent(string(make([]byte, 1000)) + "x"); len(got) > MaxAgent {
		t.Error(len(got))
	}
}
