package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The gateway takes the configuration as it is written here.
func TestConfigurationIsTaken(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "isogloss")
	if said, err := exec.Command("go", "build", "-o", bin, "../cmd/isogloss").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	u, err := newUpstream()
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	g, err := newGateway(bin, t.TempDir(), "gw-1")
	if err != nil {
		t.Fatal(err)
	}
	g.env = append(os.Environ(), "PEPPER="+pepperText)
	s := settings{store: "postgres://postgres@127.0.0.1:1/postgres?sslmode=disable", redis: "redis://127.0.0.1:1/0", etcd: "http://127.0.0.1:1"}
	if err := g.configure(s, u); err != nil {
		t.Fatal(err)
	}
	if _, err := g.command(t.Context(), "check", "-c", g.config); err != nil {
		t.Error(err)
	}
}
