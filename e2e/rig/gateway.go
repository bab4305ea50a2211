package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The keys that clients send and that the gateway sends.
const (
	ClientKey   = "isogloss-e2e-client-key-0001"
	UpstreamKey = "sk-upstream"
)

// Build returns the binary under test: the one that ISOGLOSS_BIN names, or one built
// from this repository.
func Build(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("ISOGLOSS_BIN"); bin != "" {
		return bin
	}
	bin := filepath.Join(t.TempDir(), "isogloss")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/isogloss")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the gateway does not build: %v\n%s", err, out)
	}
	return bin
}

// Gateway is a running gateway.
type Gateway = testrig.Gateway

// StartGateway starts a gateway on a configuration that has no listen and admin
// settings, and waits until it serves. It ends with t; its log is shown if t fails.
func StartGateway(t *testing.T, bin, configuration string) *Gateway {
	t.Helper()
	g, err := testrig.StartGateway(t.Context(), bin, configuration)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log := g.Log()
			t.Logf("the end of the gateway's log:\n%s", log[max(0, len(log)-16<<10):])
		}
		g.Close()
	})
	return g
}
