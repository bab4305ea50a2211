package exchange

import (
	"net/http"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// TestIdempotencyKeysOfCallers checks that the same Idempotency-Key of two callers is two
// keys at the upstream, and that a retry of one caller keeps its key.
func TestIdempotencyKeysOfCallers(t *testing.T) {
	sent := func(caller, key string) string {
		c := Call{CallerID: caller, Client: &http.Request{Header: http.Header{"Idempotency-Key": {key}}}}
		return c.UpstreamHeaders(nil).Get("Idempotency-Key")
	}
	first := sent("a", "1")
	if first == "1" || sent("b", "1") == first || sent("a", "2") == first {
		t.Errorf("%s is not the key of one caller", first)
	}
	if again := sent("a", "1"); again != first {
		t.Errorf("a retry has the key %s, want %s", again, first)
	}
	if got := sent("", "1"); got != "1" {
		t.Errorf("without callers the key is %s", got)
	}
}

// TestHasPrivate keeps names of the operator's cloud account out of headers, but not request ids.
func TestHasPrivate(t *testing.T) {
	for value, want := range map[string]bool{
		"0f1e2d3c-aaaa-bbbb-cccc-1234567890ab":                                  false,
		"/subscriptions/0f1e2d3c-aaaa-bbbb-cccc-1234567890ab/resourceGroups/rg": true,
		"my-resource.openai.azure.com":                                          true,
		"Sweden Central":                                                        false,
		"the-secret-key":                                                        true,
	} {
		if got := HasPrivate(&provider.Provider{Preset: "azure", Key: "the-secret-key"}, "x", value); got != want {
			t.Errorf("%s: %t", value, got)
		}
	}
}
