package replay

import (
	"net/url"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
)

func TestDestinationDependsOnTheAddress(t *testing.T) {
	at := func(host string) *route.Route {
		p := &provider.Provider{Name: "a", BaseURL: &url.URL{Host: host}}
		return &route.Route{Name: "m", Targets: []route.Target{{Provider: p, Model: "m"}}}
	}
	if a, b := destination(at("x")), destination(at("y")); a == b {
		t.Errorf("both are %q", a)
	}
}
