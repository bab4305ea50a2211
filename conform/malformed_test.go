package conform

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
)

// TestReadersSurviveMalformedJSON replaces and removes every value of every body and event
// of some cases, one at a time, and checks that the readers do not panic. A gateway under
// test may send anything.
func TestReadersSurviveMalformedJSON(t *testing.T) {
	cases, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Dialects() {
		t.Run(string(d), func(t *testing.T) {
			c := codecOf(d)
			seen := map[string]bool{}
			each := func(body []byte, read func([]byte)) {
				if seen[string(body)] {
					return
				}
				seen[string(body)] = true
				v, err := parse(body)
				if err != nil {
					return
				}
				for changed := range variants(v.v) {
					b := encode(changed)
					if !seen[string(b)] {
						seen[string(b)] = true
						survive(t, b, read)
					}
				}
			}
			for _, name := range []string{"parallel-tools", "tool-results", "reasoning-and-signature", "structured-output", "citations", "cached-usage"} {
				for _, r := range find(t, cases, name).rounds {
					each(c.writeRequest(c.fitRequest(r.request.Request), "m", false), func(b []byte) { c.readRequest(b, http.Header{}, "/") })
					if r.response == nil {
						continue
					}
					response := c.fitResponse(*r.response)
					each(c.writeBody(response), func(b []byte) { c.readBody(b) })
					events := c.writeStream(response)
					for i, e := range events {
						each([]byte(e.data), func(b []byte) {
							broken := slices.Clone(events)
							broken[i].data = string(b)
							c.readStream(broken)
						})
					}
				}
			}
		})
	}
}

func survive(t *testing.T, body []byte, read func([]byte)) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("%v: %s", p, body)
		}
	}()
	read(body)
}

// variants returns copies of a JSON value in which one value is replaced or removed.
func variants(v any) func(yield func(any) bool) {
	return func(yield func(any) bool) {
		for _, other := range []any{nil, true, "", "x", []any{}, []any{nil}, object{}} {
			if fmt.Sprint(other) != fmt.Sprint(v) && !yield(other) {
				return
			}
		}
		switch v := v.(type) {
		case object:
			for name, member := range v {
				less := maps.Clone(v)
				delete(less, name)
				if !yield(less) {
					return
				}
				for changed := range variants(member) {
					with := maps.Clone(v)
					with[name] = changed
					if !yield(with) {
						return
					}
				}
			}
		case []any:
			for i, item := range v {
				if !yield(slices.Delete(slices.Clone(v), i, i+1)) {
					return
				}
				for changed := range variants(item) {
					with := slices.Clone(v)
					with[i] = changed
					if !yield(with) {
						return
					}
				}
			}
		}
	}
}
