package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// outcome is what became of a mutation.
type outcome int

const (
	caught   outcome = iota
	survived         // the command passed, so the claim's test does not hold the claim
	broken           // the changed code does not compile, the mutation does not apply, or the command fails without it
)

func (o outcome) String() string { return [...]string{"caught", "SURVIVED", "BROKEN"}[o] }

// player plays mutations. Root is the folder of the module.
type player struct {
	root    string
	source  *source
	timeout time.Duration // of one command
	jobs    int           // how many mutations are played at a time
	cpu     atomic.Int64  // of all commands so far, in ns
}

// goCommand runs a command of Go in the module's folder until the timeout, and returns what it printed.
func (p *player) goCommand(ctx context.Context, args ...string) (string, error) {
	return p.commandIn(ctx, p.root, nil, "go", args...)
}

// commandIn runs a command in a folder, with more variables in its environment.
func (p *player) commandIn(ctx context.Context, dir string, variables []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the commands are those of docs/claims.yaml
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), mutantVariable+"="), variables...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if s := cmd.ProcessState; s != nil {
		p.cpu.Add(int64(s.UserTime() + s.SystemTime()))
	}
	return string(out), err
}

// test is a command of a claim: `go test FLAGS ./FOLDER -run PATTERN`, or `isogloss …`.
type test struct {
	folder string // of the tests; empty is a command of isogloss
	args   []string
}

func parseTest(command string) (test, error) {
	words := strings.Fields(command)
	for i := range words {
		words[i] = strings.Trim(words[i], `'"`) // what a shell would remove
	}
	switch {
	case len(words) > 1 && words[0] == "isogloss":
		return test{args: words[1:]}, nil
	case len(words) < 3 || words[0] != "go" || words[1] != "test":
		return test{}, fmt.Errorf("%q is neither `go test` nor `isogloss`", command)
	}
	var t test
	for _, w := range words[2:] {
		switch folder, isFolder := strings.CutPrefix(w, "./"); {
		case isFolder && t.folder == "":
			t.folder = folder
		case strings.HasPrefix(w, "-"):
			t.args = append(t.args, "-test."+w[1:])
		default:
			t.args = append(t.args, w)
		}
	}
	if t.folder == "" {
		return t, fmt.Errorf("%q names no folder", command)
	}
	return t, nil
}

// build is the binaries with all mutations in them.
type build struct {
	*player
	dir, overlay string
}

// binary returns the file of the binary that runs a test.
func (b *build) binary(t test) string {
	if t.folder == "" {
		return filepath.Join(b.dir, "isogloss")
	}
	return filepath.Join(b.dir, path.Base(t.folder)+".test")
}

// compile compiles the tests with the mutations, whose numbers are the keys, beside the functions that they change.
func (p *player) compile(ctx context.Context, dir string, mutants map[int]mutant, tests []test) (*build, error) {
	s, err := splice(p.root, p.source, mutants)
	if err != nil {
		return nil, err
	}
	return p.compileTexts(ctx, dir, s.texts, tests)
}

// compileTexts compiles the tests with other texts in place of some files.
func (p *player) compileTexts(ctx context.Context, dir string, texts map[string]string, tests []test) (*build, error) {
	overlay, err := writeOverlay(dir, texts)
	if err != nil {
		return nil, err
	}
	b := &build{p, dir, overlay}
	var folders []string
	for _, t := range tests {
		folders = append(folders, "./"+t.folder)
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	if len(folders) > 0 && folders[0] == "./" {
		folders = folders[1:]
		if out, err := p.goCommand(ctx, "build", "-overlay", overlay, "-o", b.binary(test{}), "./cmd/isogloss"); err != nil {
			return nil, fmt.Errorf("go build: %w\n%s", err, tail(out))
		}
	}
	if len(folders) == 0 {
		return b, nil
	}
	if out, err := p.goCommand(ctx, append([]string{"test", "-c", "-vet=off", "-overlay", overlay, "-o", dir + "/"}, folders...)...); err != nil {
		return nil, fmt.Errorf("go test -c: %w\n%s", err, tail(out))
	}
	return b, nil
}

// run runs a test until a time limit, with the mutation of a number; empty is none. A program that the test builds has the
// mutations too. A test of no function fails.
func (b *build) run(ctx context.Context, t test, number string, limit time.Duration) (string, error) {
	args := t.args
	if t.folder != "" {
		args = append(slices.Clone(args), "-test.failfast", "-test.timeout="+limit.String())
	}
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	out, err := b.commandIn(ctx, filepath.Join(b.root, t.folder), b.variables(number), b.binary(t), args...)
	if err == nil && strings.Contains(out, "no tests to run") {
		err = errors.New("there is no such test")
	}
	return out, err
}

// variables returns those that select a mutation, also in what Go builds.
func (b *build) variables(number string) []string {
	return []string{mutantVariable + "=" + number, "GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+b.overlay)}
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

// tail returns the last lines of an output.
func tail(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
