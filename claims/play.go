package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// outcome is what became of a mutation.
type outcome int

const (
	caught   outcome = iota
	survived         // the command passed, so the claim's test does not hold the claim
	broken           // the changed code does not compile or the mutation does not apply
)

func (o outcome) String() string { return [...]string{"caught", "SURVIVED", "BROKEN"}[o] }

// result is a mutation that was played.
type result struct {
	claim   string
	mutant  mutation
	outcome outcome
	took    time.Duration
	detail  string // for a person, where the mutation was not caught
}

// player plays mutations. Root is the folder of the module.
type player struct {
	root    string
	source  *source
	timeout time.Duration // of one command
}

// play changes the code as the mutation says and runs its command.
func (p *player) play(ctx context.Context, claim string, m mutation) result {
	began := time.Now()
	r := result{claim: claim, mutant: m}
	r.outcome, r.detail = p.run(ctx, m)
	r.took = time.Since(began)
	return r
}

func (p *player) run(ctx context.Context, m mutation) (outcome, string) {
	path, text, err := p.source.apply(m)
	if err != nil {
		return broken, err.Error()
	}
	dir, err := os.MkdirTemp("", "claims-")
	if err != nil {
		return broken, err.Error()
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := writeOverlay(dir, map[string]string{path: text})
	if err != nil {
		return broken, err.Error()
	}
	if out, err := p.command(ctx, "go", "build", "-overlay", overlay, "./"+relative(p.root, filepath.Dir(path))); err != nil {
		return broken, out
	}
	out, err := p.test(ctx, dir, overlay, m.Test)
	switch {
	case err == nil:
		return survived, tail(out)
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return broken, tail(out)
	}
	return caught, ""
}

// test runs a claim's command on the changed code: `go test …`, or `isogloss …` with a binary that it builds.
func (p *player) test(ctx context.Context, dir, overlay, command string) (string, error) {
	words := strings.Fields(command)
	switch {
	case len(words) > 2 && words[0] == "go" && words[1] == "test":
		return p.command(ctx, "go", append([]string{"test", "-vet=off", "-count=1", "-overlay", overlay}, unquote(words[2:])...)...)
	case len(words) > 1 && words[0] == "isogloss":
		binary := filepath.Join(dir, "isogloss")
		if out, err := p.command(ctx, "go", "build", "-overlay", overlay, "-o", binary, "./cmd/isogloss"); err != nil {
			return out, err
		}
		return p.command(ctx, binary, unquote(words[1:])...)
	}
	return "", fmt.Errorf("%q is neither `go test` nor `isogloss`", command)
}

// command runs a command in the module's folder until the timeout, and returns what it printed.
func (p *player) command(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the commands are those of docs/claims.yaml
	cmd.Dir = p.root
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// writeOverlay writes the file for -overlay, by which Go reads other texts in place of some files.
func writeOverlay(dir string, texts map[string]string) (string, error) {
	replace := map[string]string{}
	for path, text := range texts {
		name := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", err
		}
		absolute, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		replace[absolute] = name
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

func relative(root, path string) string {
	if r, err := filepath.Rel(root, path); err == nil {
		return filepath.ToSlash(r)
	}
	return path
}

// unquote removes the quotes that a shell would remove.
func unquote(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strings.Trim(w, `'"`)
	}
	return out
}

// tail returns the last lines of an output.
func tail(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
