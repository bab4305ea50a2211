package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestThreeNodes runs examples/three-nodes with real stores, which must be installed.
func TestThreeNodes(t *testing.T) {
	script, err := filepath.Abs(filepath.Join(root, "examples/three-nodes/run.sh"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", script)
	cmd.Env = append(os.Environ(), "ISOGLOSS="+binary)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := string(out)
	if n := strings.Count(text, "Hello from the engine."); n != 3 {
		t.Errorf("%d nodes have answered, not 3", n)
	}
	for _, want := range []string{`"team":"search","team_name":"search","model":"qwen3","requests":3,`, `"cost":"0.0000126"`, `"node":"gw-1"`, `"node":"gw-2"`, `"node":"gw-3"`, "\ndone\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
