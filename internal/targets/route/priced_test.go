package route_test

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
)

func TestWorkersHaveThePriceOfTheirPool(t *testing.T) {
	for _, c := range []struct {
		name   string
		target route.Target
		want   string
	}{
		{"a provider", route.Target{Provider: &provider.Provider{Name: "local"}, Model: "m"}, "local/m"},
		{"a worker", route.Target{Provider: &provider.Provider{Name: "local", Workers: "discovered/fast"}, Model: "m"}, "discovered/fast"},
	} {
		if got := c.target.Priced(); got != c.want {
			t.Errorf("%s is priced as %q, want %q", c.name, got, c.want)
		}
	}
}
