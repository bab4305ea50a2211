package deploytest

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
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
	for _, name := range []string{"PEPPER", "POSTGRES_PASSWORD", "GRAFANA_PASSWORD"} {
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
	for _, use := range regexp.MustCompile(`\$\{(PEPPER|POSTGRES_PASSWORD|GRAFANA_PASSWORD)[^}]*\}`).FindAllString(string(text), -1) {
		if !strings.Contains(use, ":?") {
			t.Errorf("%s starts without the setup", use)
		}
	}
	compose := readCompose(t)
	url := regexp.MustCompile(`\$\{POSTGRES_PASSWORD[^}]*\}`).ReplaceAllString(compose.Services["isogloss"].Environment["POSTGRES_URL"], "PASSWORD")
	config, err := os.ReadFile(filepath.Join(dir, "isogloss.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "here.yaml")
	write(t, file, strings.ReplaceAll(string(config), adminFolder, composeCertificate(t, t.TempDir())))
	check := func(pepper, password string) (string, error) {
		cmd := exec.Command(binary(t), "check", "-c", file)
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

// composeFile has the members of compose.yaml that tests read.
type composeFile struct {
	Services map[string]struct {
		Environment map[string]string            `json:"environment"`
		Ports       []string                     `json:"ports"`
		Volumes     []string                     `json:"volumes"`
		Entrypoint  []string                     `json:"entrypoint"`
		Command     []string                     `json:"command"`
		DependsOn   map[string]map[string]string `json:"depends_on"`
	} `json:"services"`
	Volumes map[string]map[string]any `json:"volumes"`
}

func readCompose(t *testing.T) (c composeFile) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/compose/compose.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// composeCertificate runs the service that makes the certificate of the console, in a folder of this machine, and
// returns the folder.
func composeCertificate(t *testing.T, dir string) string {
	t.Helper()
	c := readCompose(t).Services["certificate"]
	if len(c.Entrypoint) != 2 || len(c.Command) != 1 || !strings.Contains(c.Command[0], adminFolder) {
		t.Fatalf("the service is %v", c)
	}
	script := strings.NewReplacer(adminFolder, dir, "65532:65532", strconv.Itoa(os.Getuid())+":"+strconv.Itoa(os.Getgid()), "$$", "$").Replace(c.Command[0])
	run(t, exec.Command(c.Entrypoint[0], c.Entrypoint[1], script))
	return dir
}

// TestComposeCertificate makes the certificate of the console, and again when it is about to expire.
func TestComposeCertificate(t *testing.T) {
	t.Parallel()
	dir := composeCertificate(t, t.TempDir())
	load := func() *x509.Certificate {
		t.Helper()
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf
	}
	first := load()
	if err := first.VerifyHostname("127.0.0.1"); err != nil {
		t.Error(err)
	}
	if err := first.VerifyHostname("localhost"); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "tls.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has the mode %v, %v", info.Mode(), err)
	}
	if composeCertificate(t, dir); load().SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Error("a second run has replaced the certificate")
	}
	run(t, exec.Command("openssl", "x509", "-in", filepath.Join(dir, "tls.crt"), "-signkey", filepath.Join(dir, "tls.key"), "-days", "29", "-out", filepath.Join(dir, "tls.crt")))
	if composeCertificate(t, dir); time.Until(load().NotAfter) < 300*24*time.Hour {
		t.Errorf("it expires on %v", load().NotAfter)
	}
}

// TestComposeConsole checks what is published and where: the ports on the host's loopback, the alert rules in
// Prometheus, and the dashboards with their source in Grafana.
func TestComposeConsole(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	if gateway := c.Services["isogloss"]; !slices.Contains(gateway.Ports, "127.0.0.1:8081:8081") || gateway.DependsOn["certificate"]["condition"] != "service_completed_successfully" ||
		!slices.Contains(gateway.Volumes, "certificate:"+adminFolder+":ro") || !slices.Contains(c.Services["certificate"].Volumes, "certificate:"+adminFolder) {
		t.Errorf("%+v", gateway)
	}
	inContainer := map[string]string{} // by path in the container, the file of this repository
	for name, s := range c.Services {
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s is published as %s", name, port)
			}
		}
		for _, v := range s.Volumes {
			from, to, _ := strings.Cut(v, ":")
			to = strings.TrimSuffix(to, ":ro")
			if _, named := c.Volumes[from]; named {
				continue
			}
			file := filepath.Join(root, "deploy/compose", from)
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s mounts %s, which is not there", name, from)
			}
			inContainer[name+to] = file
		}
	}
	folder := t.TempDir() // as Prometheus sees its files
	for _, name := range []string{"prometheus.yml", "alerts.yaml"} {
		text, err := os.ReadFile(inContainer["prometheus/etc/prometheus/"+name])
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, name), string(text))
	}
	if out := run(t, exec.Command("promtool", "check", "config", filepath.Join(folder, "prometheus.yml"))); !strings.Contains(out, "rules found") || !strings.Contains(out, "1 rule files found") {
		t.Errorf("Prometheus loads no rules: %s", out)
	}
	var sources struct {
		Datasources []struct {
			Type, URL string
			IsDefault bool `json:"isDefault"`
		}
	}
	var boards struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	for path, into := range map[string]any{"/etc/grafana/provisioning/datasources/isogloss.yaml": &sources, "/etc/grafana/provisioning/dashboards/isogloss.yaml": &boards} {
		text, err := os.ReadFile(inContainer["grafana"+path])
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	if d := sources.Datasources; len(d) != 1 || d[0].Type != "prometheus" || d[0].URL != "http://prometheus:9090" || !d[0].IsDefault {
		t.Errorf("%+v", d)
	}
	files, err := filepath.Glob(filepath.Join(inContainer["grafana"+boards.Providers[0].Options.Path], "*.json"))
	if err != nil || len(files) < 4 {
		t.Errorf("Grafana has the dashboards %v, %v", files, err)
	}
}

// TestComposeFirstKey runs the commands for keys of compose.yaml's comment as `docker compose exec` does: with the
// arguments after the name of the service.
func TestComposeFirstKey(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "deploy/compose/compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^#   docker compose -f deploy/compose/compose.yaml exec isogloss (isogloss keys create .*)$`).FindAllStringSubmatch(string(text), -1)
	if len(lines) != 2 {
		t.Fatalf("the commands are %v", lines)
	}
	env, _ := startVendor(t, nil)
	addresses, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	dir, sockets := t.TempDir(), shortFolder(t)
	certificate := composeCertificate(t, t.TempDir())
	file := filepath.Join(dir, "isogloss.yaml")
	write(t, file, "store: sqlite\nadmin: { listen: \""+addresses[1]+"\", tls: { cert: "+certificate+"/tls.crt, key: "+certificate+"/tls.key } }\nproviders:\n  openai: { preset: openai, api_key: \"${OPENAI_API_KEY}\" }\nmodels:\n  openai/*: { targets: [openai/*] }\n")
	env = append(env, "ISOGLOSS_LISTEN="+addresses[0], "RUNTIME_DIRECTORY="+filepath.Join(sockets, "run"), "ISOGLOSS_CONFIG="+file, "ISOGLOSS_DATA="+filepath.Join(dir, "data"))
	serve := exec.Command(binary(t), "serve")
	serve.Env = env
	p := launch(t, serve)
	waitForSocket(t, filepath.Join(sockets, "run", addresses[0]+".sock"), p.ended)
	if !strings.Contains(p.log(), `"console":"https://`+addresses[1]+"/\"") {
		t.Errorf("the log does not name the console: %s", p.log())
	}
	keys := make([]string, len(lines))
	for i, line := range lines {
		create := exec.Command("/bin/sh", "-c", line[1])
		create.Env = append(slices.Clone(env), "PATH="+filepath.Dir(binary(t))+":/bin:/usr/bin")
		keys[i] = keyIn(t, run(t, create))
	}
	ask(t, "http://"+addresses[0], keys[0], p.ended)
	get := exec.Command("curl", "-sS", "--cacert", certificate+"/tls.crt", "-H", "Authorization: Bearer "+keys[1], "https://"+addresses[1]+"/api/v1/whoami")
	if out := run(t, get); !strings.Contains(out, "owner") {
		t.Errorf("the console's key: %s", out)
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
