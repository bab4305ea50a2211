package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/conform"
)

func runConform(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := newConform()
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestConformDirect(t *testing.T) {
	out, _, err := runConform(t, "--direct", "--only", "situations")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !regexp.MustCompile(`\n[1-9]\d* passed, 0 failed\n$`).MatchString(out) {
		t.Errorf("the last line is not the sum:\n%s", out)
	}
	if !strings.Contains(out, "ok   situations/plain-text 10/10  Plain text") {
		t.Errorf("the progress does not name the cases:\n%s", out)
	}
}

func TestConformJSON(t *testing.T) {
	out, progress, err := runConform(t, "--direct", "--only", "CST-13", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var s conform.Summary
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if s.Passed == 0 || s.Failed != 0 || s.Cells["chat>chat stream"] == "" {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(progress, "parallel-tools") {
		t.Errorf("no progress on standard error: %q", progress)
	}
}

// TestConformRandom plays random conversations on a gateway of this binary, and reports the
// failures of one that does not exist.
func TestConformRandom(t *testing.T) {
	out, progress, err := runConform(t, "--random", "--seed", "3", "--n", "5")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "seed 3: 5 dialogues, 125 played in pairs") || !strings.Contains(out, "0 failures of 0 kinds") {
		t.Errorf("%s", out)
	}
	if !strings.Contains(progress, "of 5 dialogues") {
		t.Errorf("no progress on standard error: %q", progress)
	}
	dump := t.TempDir()
	out, _, err = runConform(t, "--random", "--n", "1", "--json", "--dump", dump, "--base-url", "http://127.0.0.1:1", "--model", "chat=x")
	var report conform.RandomReport
	if jsonErr := json.Unmarshal([]byte(out), &report); jsonErr != nil || err == nil {
		t.Fatalf("%v, %v: %s", jsonErr, err, out)
	}
	if len(report.Failures) == 0 || report.Failures[0].Kind != "status: the transfer broke off" {
		t.Errorf("%+v", report)
	}
	if files, err := os.ReadDir(dump); err != nil || len(files) != len(report.Failures) {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// TestConformFails checks the report about a gateway that has none of the models.
func TestConformFails(t *testing.T) {
	dump := t.TempDir()
	out, _, err := runConform(t, "--base-url", "http://127.0.0.1:1", "--model", "chat=x", "--only", "situations/plain-text", "--dump", dump)
	if err == nil || !strings.Contains(err.Error(), "do not hold") {
		t.Errorf("%v, want a failure", err)
	}
	if !strings.Contains(out, "FAIL situations/plain-text 0/10") || !strings.Contains(out, "0 passed, 10 failed") {
		t.Errorf("%s", out)
	}
	kept, err := os.ReadFile(filepath.Join(dump, "situations-plain-text-chat-on-chat-stream.txt"))
	if err != nil || !strings.Contains(string(kept), ">>> client request") {
		t.Errorf("the bytes were not kept: %v %s", err, kept)
	}
}

func TestConformMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		"no model is named":           {"--base-url", "http://127.0.0.1:1"},
		`there is no dialect "latin"`: {"--base-url", "http://127.0.0.1:1", "--model", "latin=x"},
		"no case was run":             {"--direct", "--only", "there is no such case"},
		"choose another address":      {"--direct", "--upstream-listen", "256.0.0.1:1"},
	} {
		if _, _, err := runConform(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want something with %q", args, err, want)
		}
	}
}

// TestConformSelf runs `conform` without a URL, which starts a gateway and tests it, for
// one dialect.
func TestConformSelf(t *testing.T) {
	out, _, _ := runConform(t, "--self", "--only", "situations/plain-text")
	if !strings.Contains(out, "chat                1/1 1/1") {
		t.Errorf("a Chat client on a Chat upstream does not hold:\n%s", out)
	}
}
