package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// abilities are the settings that the binary takes. What it does not take is a
// failed check of its own and is left out, so that the rest can still be run.
type abilities map[string]bool

// probe asks the binary's own check for each setting that the groups need.
func probe(ctx context.Context, b *bench) (abilities, error) {
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	can := abilities{}
	for _, s := range []struct{ name, top, model string }{
		{"nothing", "", ""},
		{"first_token", "timeouts: { first_token: 1s }", ""},
		{"retries", "retries: { attempts: 3 }", ""},
		{"balance", "", "balance: order"},
		{"hedge", "", "hedge: { percentile: 95, share: 0.05 }"},
		{"overload", "overload: { requests: 100, per_key: 10, per_target: 20, queue: 40, wait: 1s, adaptive: false }", ""},
		{"keys", "keys: [ { key: 0123456789abcdef-noisy, criticality: normal, concurrency: 2 } ]", ""},
	} {
		began := time.Now()
		set := &setup{}
		if s.top != "" {
			set.top = []string{s.top}
		}
		var more []string
		if s.model != "" {
			more = []string{s.model}
		}
		set.model("m", []string{set.provider("p", chat, "http://127.0.0.1:9/v1")}, more...)
		file := filepath.Join(dir, s.name+".yaml")
		if err := os.WriteFile(file, []byte(set.yaml()), 0o600); err != nil {
			return nil, err
		}
		said, err := exec.CommandContext(ctx, b.bin, "check", "-c", file).CombinedOutput()
		if err != nil && s.name == "nothing" {
			return nil, fmt.Errorf("%s check: %w: %s", b.bin, err, said)
		}
		can[s.name] = err == nil
		if name := "config/" + s.name; err != nil && b.wants(name) {
			b.failed(name, strings.TrimSpace(strings.ReplaceAll(string(said), dir+string(filepath.Separator), "")), time.Since(began))
		}
	}
	return can, nil
}

// timeouts is the board's line: every phase may take so long.
func (a abilities) timeouts(limit time.Duration) string {
	first := ""
	if a["first_token"] {
		first = fmt.Sprintf(", first_token: %s", limit)
	}
	return fmt.Sprintf("timeouts: { connect: %[1]s, first_byte: %[1]s, idle: %[1]s%[2]s, total: 60s }", limit, first)
}
