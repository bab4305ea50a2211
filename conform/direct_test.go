package conform

import (
	"testing"
)

// TestCorpusHoldsAgainstItself connects each client to the upstream of its own dialect. A
// failure is a mistake in a writer, a reader or a case.
func TestCorpusHoldsAgainstItself(t *testing.T) {
	cases, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	r := direct(t)
	ran := 0
	for _, c := range cases {
		for _, cell := range r.Cells(c) {
			ran++
			if res := r.Run(t.Context(), c, cell); !res.Passed() {
				t.Errorf("%s %s: %q\n%s", c.Name, cell, res.Problems, res.Bytes)
			}
		}
	}
	if ran < 100 {
		t.Errorf("only %d checks were run", ran)
	}
}

func direct(t *testing.T) *Runner {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := NewUpstream(l)
	target := Target{BaseURL: u.URL(), Direct: true, Key: "sk-test", Models: map[Dialect]string{}}
	for _, d := range Dialects() {
		target.Models[d] = "up"
	}
	r := &Runner{Target: target, Upstream: u}
	t.Cleanup(func() {
		r.Close()
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}
