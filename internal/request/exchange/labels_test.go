package exchange

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// TestLabelsAllocateNothing checks that a request without labels costs no allocation for them.
func TestLabelsAllocateNothing(t *testing.T) {
	for _, d := range all.Dialects() {
		c := labelCall(t, d, `{"model":"m","messages":[],"contents":[]}`)
		for _, rules := range []usage.LabelRules{{}, {Keys: []string{"team"}, Users: usage.HashedUsers}} {
			if n := testing.AllocsPerRun(100, func() { _, _ = c.Labels(&rules) }); n != 0 {
				t.Errorf("%s: %v allocations", d.Name, n)
			}
		}
	}
}

func labelCall(t testing.TB, d *codec.Dialect, body string) *Call {
	t.Helper()
	b, err := ReadBody(d, codec.Location{Route: &codec.Route{Operation: codec.Generate}, Model: "m"}, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return &Call{Dialect: d, Client: httptest.NewRequest(http.MethodPost, "/", nil), Body: b}
}

// BenchmarkLabels measures the labels of a request: none, two tags in the header, two in the body and a
// hashed end user.
func BenchmarkLabels(b *testing.B) {
	chat := all.Dialects()[0]
	header := labelCall(b, chat, `{"model":"m","messages":[]}`)
	header.Client.Header.Set(tagsHeader, "team=search, feature=import")
	rules := &usage.LabelRules{Keys: []string{"team", "feature"}, Users: usage.HashedUsers, Secret: make([]byte, 32)}
	for name, c := range map[string]*Call{
		"none":   labelCall(b, chat, `{"model":"m","messages":[]}`),
		"header": header,
		"body":   labelCall(b, chat, `{"model":"m","user":"u-17","metadata":{"team":"search","feature":"import"},"messages":[]}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Labels(rules)
			}
		})
	}
}
