package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestKeysNameTheirCell checks that keys of a gateway with a cell have it in their text and work,
// also after a rotation, and that operators' keys do not.
func TestKeysNameTheirCell(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	configuration := stored(up, t.TempDir(), "sqlite", "cell: eu")
	keys := keyringOf(t, configuration)
	key := keys.must(t, quota.Limit{})
	if !strings.HasPrefix(key.Text.Reveal(), "gw_eu_") {
		t.Error("the key does not have the cell")
	}
	next, err := keys.RotateKey(t.Context(), key.ID, 0)
	if err != nil || !strings.HasPrefix(next.Text, "gw_eu_"+key.ID) {
		t.Error("the rotated key does not have the cell", err)
	}
	if made := keys.operator(t, access.Admin); !strings.HasPrefix(made.Text.Reveal(), "gw_admin_") {
		t.Error("an operator's key has a cell")
	}
	g := start(t, configuration, quick())
	if status, _, body := g.try(t, "fast", secret.String(next.Text)); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
}
