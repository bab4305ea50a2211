package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// composeRun runs the setup of a copy of deploy/compose and returns the variables that it wrote.
func composeRun(t *testing.T, dir string) map[string]string {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "setup.sh"))
	cmd.Dir = t.TempDir() // it may be called from anywhere
	run(t, cmd)
	file := filepath.Join(dir, ".env")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the mode of .env is %v, %v", info, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = value
	}
	return values
}

// TestCompose checks that Compose starts with secrets that its setup has made and nobody else knows, and that the
// gateway accepts these, and refuses those that the files had once.
func TestCompose(t *testing.T) {
	t.Parallel()
	dir := copyOf(t, "deploy/compose")
	first := composeRun(t, dir)
	again := composeRun(t, dir)
	other := composeRun(t, copyOf(t, "deploy/compose"))
	for _, name := range []string{"PEPPER", "POSTGRES_PASSWORD"} {
		if v := first[name]; len(v) != 64 || again[name] != v || other[name] == v {
			t.Errorf("%s is %d characters long, the same after a second run: %v, the same elsewhere: %v", name, len(v), again[name] == v, other[name] == v)
		}
	}
	if first["PEPPER"] == first["POSTGRES_PASSWORD"] {
		t.Error("both secrets are the same")
	}

	text, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range regexp.MustCompile(`\$\{(PEPPER|POSTGRES_PASSWORD)[^}]*\}`).FindAllString(string(text), -1) {
		if !strings.Contains(use, ":?") {
			t.Errorf("%s starts without the setup", use)
		}
	}
	var compose struct {
		Services map[string]struct {
			Environment map[string]string `json:"environment"`
		} `json:"services"`
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`\$\{POSTGRES_PASSWORD[^}]*\}`).ReplaceAllString(compose.Services["isogloss"].Environment["POSTGRES_URL"], "PASSWORD")
	check := func(pepper, password string) (string, error) {
		cmd := exec.Command(binary(t), "check", "-c", filepath.Join(dir, "isogloss.yaml"))
		cmd.Env = slices.Concat(clusterEnvironment, []string{"ISOGLOSS_LISTEN=:8080", "PEPPER=" + pepper, "POSTGRES_URL=" + strings.Replace(url, "PASSWORD", password, 1)})
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := check(first["PEPPER"], first["POSTGRES_PASSWORD"]); err != nil {
		t.Errorf("the secrets of the setup: %v: %s", err, out)
	}
	if out, err := check("change-this-pepper-before-use-0123456789", first["POSTGRES_PASSWORD"]); err == nil || !strings.Contains(out, "openssl rand -hex 32") {
		t.Errorf("the pepper that was an example: %v: %s", err, out)
	}
	if out, err := check(first["PEPPER"], "isogloss"); err == nil || !strings.Contains(out, "openssl rand -hex 32") {
		t.Errorf("the password that was an example: %v: %s", err, out)
	}
}

// copyOf returns a folder with a copy of another one of the repository.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, path))); err != nil {
		t.Fatal(err)
	}
	return dir
}
