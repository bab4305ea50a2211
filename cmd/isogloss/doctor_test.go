package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// doctorConfiguration has one provider, and ports that nobody uses.
func doctorConfiguration(t *testing.T, url string) string {
	t.Helper()
	ports, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("listen: %s\nadmin: { listen: %q }\nproviders: { up: { protocol: openai-chat, base_url: %q, api_key: s3cret-key-of-the-vendor } }\nmodels: { m: { targets: [up/m] } }\n", ports[0], ports[1], url)
}

// vendorOf lists models for a key.
func vendorOf(t *testing.T, key string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"m","object":"model"}]}`))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// TestDoctorExitCode checks that a failure and nothing else gives the exit code 1, in both forms of the output.
func TestDoctorExitCode(t *testing.T) {
	t.Parallel()
	for key, code := range map[string]int{"s3cret-key-of-the-vendor": 0, "another": 1} {
		file := writeFile(t, "isogloss.yaml", doctorConfiguration(t, vendorOf(t, key)))
		r := command(t, t.TempDir(), nil, "doctor", "-c", file, "--json")
		var got struct {
			Version            string
			Failures, Warnings int
			Results            []struct{ Check, Of, Status, Text, Remedy string }
		}
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || got.Version != "v1.2.3" || len(got.Results) < 6 || got.Failures != code || r.code != code {
			t.Errorf("exit code %d, %v, %+v", r.code, err, got)
		}
		wantNoMark(t, "output", r.stdout+r.stderr, secret)
		r = command(t, t.TempDir(), nil, "doctor", "-c", file)
		if r.code != code || !strings.Contains(r.stdout, fmt.Sprintf("\n%s, ", count(code, "failure"))) || code == 1 != strings.Contains(r.stderr, "isogloss: 1 failure") {
			t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}
	if r := command(t, t.TempDir(), nil, "doctor", "--bundle", ""); r.code != 1 || !strings.Contains(r.stderr, "--bundle is empty") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
}

// TestDoctorOfTheEnvironment has what a process inherits: few descriptors, a proxy that refuses, and a user who may not
// use the data folder.
func TestDoctorOfTheEnvironment(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(proxy.Close)
	near, far := doctorConfiguration(t, vendorOf(t, "s3cret-key-of-the-vendor")), doctorConfiguration(t, "https://vendor.example/v1")
	away, err := testrig.Address()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		configuration, script string
		env                   []string
		want                  []string
	}{
		"few descriptors": {near, "ulimit -n 200; ", nil, []string{"FAILURE  limits", "this shell's processes may have 200 descriptors, enough for about 48 connections of clients", "LimitNOFILE=65536"}},
		"a proxy that refuses": {far, "", []string{"HTTPS_PROXY=http://user:s3cret-password@" + strings.TrimPrefix(proxy.URL, "http://")},
			[]string{"FAILURE  route up", "the proxy " + proxy.URL + " refuses the connection: Proxy Authentication Required", "correct HTTPS_PROXY or HTTP_PROXY of the gateway, or list the host in NO_PROXY"}},
		"a proxy that is away": {far, "", []string{"HTTPS_PROXY=http://" + away}, []string{"FAILURE  route up", "the proxy http://" + away + " cannot be used", "connection refused", "NO_PROXY"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, "isogloss.yaml", c.configuration)
			cmd := exec.Command("sh", "-c", c.script+`exec "$0" doctor -c "$1"`, binary, file)
			cmd.Env = environment(c.env)
			out, _ := cmd.CombinedOutput() // it fails
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("the output lacks %q:\n%s", want, out)
				}
			}
			wantNoMark(t, "output", string(out), secret)
		})
	}
}

// TestDoctorPage runs the example of the page, and compares its output but for numbers, times and addresses.
func TestDoctorPage(t *testing.T) {
	t.Parallel()
	page := read(t, filepath.Join(root, "docs/operations/doctor.md"))
	_, shown, found := strings.Cut(page, "$ isogloss doctor -c isogloss.yaml\n")
	shown, _, closed := strings.Cut(shown, "```")
	if !found || !closed {
		t.Fatal("the page has no example")
	}
	dir := t.TempDir()
	configuration := doctorConfiguration(t, vendorOf(t, "another")) + "store: sqlite\n"
	if err := os.WriteFile(filepath.Join(dir, "isogloss.yaml"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	r := command(t, dir, nil, "doctor", "-c", "isogloss.yaml")
	varying := regexp.MustCompile(`/[\w./-]+|[0-9][0-9.:]*(ms|µs|s)?|(?m)^ok +limits .*$`)
	plain := func(text string) string { return strings.TrimSpace(varying.ReplaceAllString(text, "N")) }
	if got := plain(r.stdout + r.stderr); got != plain(shown) {
		t.Errorf("the command prints\n%s\nwhich is\n%s\nand the page has\n%s", r.stdout+r.stderr, got, plain(shown))
	}
}
