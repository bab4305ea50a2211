package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const keysFile = "listen: 127.0.0.1:0\nadmin: { listen: \"127.0.0.1:0\" }\ndata: data\nstore: sqlite\n" +
	"providers: { local: { protocol: openai-chat, base_url: \"http://127.0.0.1:1/v1\" } }\nmodels: { fast: { targets: [local/m] } }\n"

// TestKeyExpiryIsShown checks that create and list show the expiry of a key, as text and
// as JSON, and that an operator key expires after 90 days unless --expires is given.
func TestKeyExpiryIsShown(t *testing.T) {
	file := writeFile(t, "isogloss.yaml", keysFile)
	keys := func(args ...string) string {
		t.Helper()
		r := command(t, filepath.Dir(file), nil, append([]string{"keys", args[0], "-c", file}, args[1:]...)...)
		if r.code != 0 {
			t.Fatalf("keys %s: exit code %d, %s", strings.Join(args, " "), r.code, r.stderr)
		}
		return r.stdout
	}
	if out := keys("create", "--name", "client", "--models", "fast"); !strings.Contains(out, "\nIt does not expire.\n") {
		t.Errorf("a client's key: %s", out)
	}
	began := time.Now().Truncate(time.Second)
	out := keys("create", "--name", "operator", "--role", "owner")
	m := regexp.MustCompile(`\nIt expires at (\S+)\.\n`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("an operator's key: %s", out)
	}
	expires, err := time.Parse(time.RFC3339, m[1])
	if err != nil || expires.Before(began.Add(90*24*time.Hour)) || expires.After(time.Now().Add(90*24*time.Hour)) {
		t.Errorf("an operator's key expires at %v, %v; want 90 days from %v", expires, err, began)
	}
	var made struct {
		ID, Key string
		Expires time.Time
	}
	if err := json.Unmarshal([]byte(keys("create", "--name", "week", "--models", "fast", "--expires", "168h", "--json")), &made); err != nil || made.Key == "" {
		t.Fatal(made.ID, err)
	}
	if left := time.Until(made.Expires); left < 167*time.Hour || left > 168*time.Hour {
		t.Errorf("as JSON the key expires at %v", made.Expires)
	}
	if out := keys("create", "--name", "for good", "--models", "fast", "--json"); !strings.Contains(out, `"expires": null`) {
		t.Errorf("as JSON a key without an expiry: %s", out)
	}
	if out := keys("show", "for good"); !regexp.MustCompile(`(?m)^expires +never$`).MatchString(out) {
		t.Errorf("keys show: %s", out)
	}
	want := map[string]string{"client": "never", "operator": m[1], "week": made.Expires.UTC().Format(time.RFC3339), "for good": "never"}
	columns := regexp.MustCompile(` {2,}`)
	for _, line := range strings.Split(strings.TrimSpace(keys("list")), "\n")[1:] {
		cells := columns.Split(line, -1)
		if got := cells[len(cells)-2]; got != want[cells[1]] {
			t.Errorf("keys list says that %q expires %q, want %q", cells[1], got, want[cells[1]])
		}
		delete(want, cells[1])
	}
	if len(want) > 0 {
		t.Errorf("keys list lacks %v", want)
	}
	var rotated struct{ Expires time.Time }
	if err := json.Unmarshal([]byte(keys("rotate", made.ID, "--json")), &rotated); err != nil || rotated.Expires.Sub(made.Expires).Abs() > time.Second {
		t.Errorf("after a rotation the key expires at %v, %v; want %v", rotated.Expires, err, made.Expires)
	}
}

// TestMissingPepper removes the pepper from a data folder with keys, as
// docs/operations/backup.md describes. It checks that the gateway and the commands refuse
// to start, that no new pepper is created, and that both start with a pepper that the
// operator writes.
func TestMissingPepper(t *testing.T) {
	file := writeFile(t, "isogloss.yaml", keysFile)
	dir := filepath.Dir(file)
	pepper := filepath.Join(dir, "data", "pepper")
	create := []string{"keys", "create", "-c", file, "--name", "me", "--role", "owner"}
	if r := command(t, dir, nil, create...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if err := os.Remove(pepper); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "-c", file}, create} {
		if r := command(t, dir, nil, args...); r.code == 0 || !strings.Contains(r.stderr, "there is no pepper in ") {
			t.Errorf("isogloss %s: exit code %d, %s", args[0], r.code, r.stderr)
		}
		if _, err := os.Stat(pepper); err == nil {
			t.Errorf("isogloss %s made a new pepper", args[0])
		}
	}
	if err := os.WriteFile(pepper, []byte(strings.Repeat("ab", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := command(t, dir, nil, create...); r.code != 0 {
		t.Errorf("with a new pepper: %s", r.stderr)
	}
}

// TestKeysNeedAConfigurationFile checks that the key commands fail if no configuration
// file is named or found.
func TestKeysNeedAConfigurationFile(t *testing.T) {
	if r := command(t, t.TempDir(), nil, "keys", "create", "--name", "me", "--role", "owner"); r.code == 0 || !strings.Contains(r.stderr, "name the file with -c") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
}

// TestSeveralBudgets sets and shows several budgets, and the first alone as before.
func TestSeveralBudgets(t *testing.T) {
	file := writeFile(t, "isogloss.yaml", keysFile)
	keys := func(args ...string) result {
		t.Helper()
		return command(t, filepath.Dir(file), nil, append([]string{"keys", args[0], "-c", file}, args[1:]...)...)
	}
	expect := func(want string, args ...string) {
		t.Helper()
		if r := keys(args...); r.code != 0 || r.stdout != want {
			t.Errorf("%v: %d %s%s, want %s", args, r.code, r.stdout, r.stderr, want)
		}
	}
	if r := keys("create", "--name", "ci", "--models", "fast", "--budget", "5/24h", "--budget", "100/30d", "--budget", "1000"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if r := keys("list"); !strings.Contains(r.stdout, "$5 in 24h, $100 in 30d, $1000 ") {
		t.Error(r.stdout)
	}
	expect("ci has spent $0 of $5 in 24h\nci has spent $0 of $100 in 30d\nci has spent $0 of $1000\n", "budget", "ci")
	expect("ci has spent $0 of $6 in 24h\nci has spent $0 of $100 in 30d\nci has spent $0 of $1000\n", "budget", "ci", "6")
	expect("ci has spent $0 of $7 in 1h\nci has spent $0 of $8 in 2h\n", "budget", "ci", "7/1h", "8/2h")
	if r := keys("budget", "ci", "--json"); !strings.Contains(strings.Join(strings.Fields(r.stdout), ""), `"budget":"7","window":"1h","spent":"0","budgets":[{"budget":"7","window":"1h","spent":"0"},{"budget":"8","window":"2h","spent":"0"}]`) {
		t.Error(r.stdout)
	}
	for _, wrong := range [][]string{{"7/1h", "8/1h"}, {"1/x"}, {"1/0s"}, {"none", "1"}, {"1", "2/1h", "3/2h", "4/3h", "5/4h"}, {"--window", "1h"}, {"1/1h", "2/2h", "--window", "1h"}} {
		if r := keys(append([]string{"budget", "ci"}, wrong...)...); r.code == 0 || r.stderr == "" {
			t.Errorf("%v: %s", wrong, r.stdout)
		}
	}
	expect("ci has spent $0 of $9 in 30d\n", "budget", "ci", "9/30d")
	expect("ci has spent $0 of $10 in 60d\n", "budget", "ci", "10", "--window", "60d")
	expect("ci has no budget and has spent $0\n", "budget", "ci", "none")
	if r := keys("orgs", "update", "default", "--budget", "5/24h", "--budget", "100/30d"); !strings.Contains(r.stdout, "$5 in 24h, $100 in 30d") {
		t.Error(r.stdout, r.stderr)
	}
	expect("organisation default has spent $0 of $5 in 24h\norganisation default has spent $0 of $100 in 30d\n", "budget", "--org", "default")
}

// TestKeysByName checks that commands take a name where it belongs to one valid key, and
// that an ambiguous name is refused with the ids.
func TestKeysByName(t *testing.T) {
	file := writeFile(t, "isogloss.yaml", keysFile)
	keys := func(args ...string) result {
		t.Helper()
		return command(t, filepath.Dir(file), nil, append([]string{"keys", args[0], "-c", file}, args[1:]...)...)
	}
	create := func() (id string) {
		t.Helper()
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(keys("create", "--name", "twin", "--models", "fast", "--json").stdout), &made); err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	first := create()
	if r := keys("update", "twin", "--requests", "7", "--expires", "30d"); r.code != 0 || !strings.Contains(r.stdout, first) || !regexp.MustCompile(`requests per minute +7\b`).MatchString(r.stdout) {
		t.Errorf("update: %d %s%s", r.code, r.stdout, r.stderr)
	}
	if r := keys("update", "twin", "--expires", "never"); !regexp.MustCompile(`expires +never`).MatchString(r.stdout) || !regexp.MustCompile(`requests per minute +7\b`).MatchString(r.stdout) {
		t.Errorf("update of the expiry alone: %s%s", r.stdout, r.stderr)
	}
	second := create()
	for _, args := range [][]string{{"show", "twin"}, {"rotate", "twin"}, {"revoke", "twin"}, {"budget", "twin"}, {"usage", "twin"}, {"update", "twin", "--requests", "1"}} {
		if r := keys(args...); r.code == 0 || !strings.Contains(r.stderr, first) || !strings.Contains(r.stderr, second) {
			t.Errorf("%v of two keys: %d %s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	if r := keys("revoke", first); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if r := keys("show", "twin"); !strings.Contains(r.stdout, second) {
		t.Errorf("the name of one valid key: %s%s", r.stdout, r.stderr)
	}
	for _, args := range [][]string{{"update", first, "--requests", "1"}, {"show", "nobody"}, {"update", "twin"}, {"usage", "--from", "yesterday"}, {"usage", "--from", "2026-11-02", "--to", "2026-11-01"}, {"budget", "twin", "lots"}, {"update", "twin", "--expires", "2020-01-01"}} {
		if r := keys(args...); r.code == 0 || r.stderr == "" {
			t.Errorf("%v: %d %s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	for _, shell := range [][]string{{"keys", "show", "-c", file, ""}, {"keys", "usage", "-c", file, "t"}} {
		if r := command(t, filepath.Dir(file), nil, append([]string{"__complete"}, shell...)...); !strings.Contains(r.stdout, "twin\t"+second+"\n") || strings.Contains(r.stdout, first) {
			t.Errorf("%v is completed to %s", shell, r.stdout)
		}
	}
}

// TestKeyWarnings checks the warnings about models that the configuration does not have
// and about a name that another key has.
func TestKeyWarnings(t *testing.T) {
	file := writeFile(t, "isogloss.yaml", strings.Replace(keysFile, "models: { fast: ", "models: { \"x/*\": { targets: [\"local/*\"] }, fast: ", 1))
	create := func(models string) string {
		t.Helper()
		r := command(t, filepath.Dir(file), nil, "keys", "create", "-c", file, "--name", "n"+models, "--models", models)
		if r.code != 0 {
			t.Fatal(r.stderr)
		}
		return r.stderr
	}
	for _, known := range []string{"fast", "f*", "*", "x/y", "x/*", "x/y*"} {
		if text := create(known); text != "" {
			t.Errorf("%s: %s", known, text)
		}
	}
	for unknown, want := range map[string]string{"fats": `did you mean "fast"?`, "zzzzzzz": "has no model", "y/*": "has no model"} {
		if text := create(unknown); !strings.Contains(text, "warning: ") || !strings.Contains(text, want) {
			t.Errorf("%s: %q", unknown, text)
		}
	}
	if text := create("fast"); !strings.Contains(text, `has the name "nfast" too`) {
		t.Errorf("a second key with the name: %q", text)
	}
}
