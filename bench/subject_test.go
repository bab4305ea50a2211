package main

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestParseScript(t *testing.T) {
	for model, want := range map[string]script{
		"whole-1024": {kind: "whole", n: 1024}, "burst-200-a": {kind: "burst", n: 200}, "paced-20": {kind: "paced", n: 20}, tableModel(7): {kind: "whole", n: 1024},
		"timed-24-5000": {"timed", 24, 5 * time.Second},
	} {
		if got, err := parseScript(model); err != nil || got != want {
			t.Errorf("%s: %v, %v", model, got, err)
		}
	}
	for _, model := range []string{"", "whole", "whole-x", "burst-0", "other-1", "timed-24", "timed-24-x"} {
		if got, err := parseScript(model); err == nil {
			t.Errorf("%q is %v", model, got)
		}
	}
}

func TestModelOf(t *testing.T) {
	for body, want := range map[string]string{`{"model":"a-1","x":1}`: "a-1", `{"x":1,"model" : "b-2"}`: "b-2", `{}`: ""} {
		if got := modelOf([]byte(body)); got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}

func TestParsePeer(t *testing.T) {
	p, err := parsePeer("litellm=http://127.0.0.1:4000,1234")
	if err != nil || p.name != "litellm" || p.addr != "127.0.0.1:4000" || p.pid != 1234 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, s := range []string{"", "x", "x=http://127.0.0.1:1", "x=127.0.0.1:1,2", "=http://h,1"} {
		if _, err := parsePeer(s); err == nil || !strings.Contains(err.Error(), "--peer") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestReadCounts(t *testing.T) {
	got := readCounts("# HELP x\ngo_memstats_mallocs_total 1.5e+06\ngo_memstats_alloc_bytes_total 7\ngo_memstats_heap_inuse_bytes 10\ngo_memstats_stack_inuse_bytes 5\nother{a=\"b\"} 3\n")
	if got != (runtimeCounts{1.5e6, 7, 15}) {
		t.Errorf("%+v", got)
	}
}

// A process's own accounting is what everything rests on.
func TestProcessAccounting(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sh -c 'while :; do :; done' & wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{name: "sh", pid: cmd.Process.Pid}
	defer func() {
		for _, pid := range family(p.pid) {
			if child, err := os.FindProcess(pid); err == nil {
				_ = child.Kill()
			}
		}
		_ = cmd.Wait()
	}()
	// The child is what burns: its time has to be in the sum.
	var used time.Duration
	for deadline := time.Now().Add(10 * time.Second); used < 5*time.Millisecond && time.Now().Before(deadline); {
		runtime.Gosched()
		var err error
		if used, err = p.cpu(); err != nil {
			t.Fatal(err)
		}
	}
	if used < 5*time.Millisecond || len(family(p.pid)) != 2 {
		t.Errorf("%v of CPU in %d processes", used, len(family(p.pid)))
	}
	if rss, err := p.rss(); err != nil || rss < 100<<10 || rss > 1<<30 {
		t.Errorf("resident memory %v, %v", rss, err)
	}
}
