package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/isogloss-gateway/isogloss/internal/app/doctor"
	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// patient is an installation that a test has broken.
type patient struct {
	Options
	change func(*doctor.Installation) // of what is checked; nil: nothing
	spend  bool
}

// examine returns the results of a configuration to which it adds ports that nobody uses.
func (p patient) examine(t *testing.T, configuration string) []doctor.Result {
	t.Helper()
	if p.Config == "" {
		p.Config = filepath.Join(t.TempDir(), "isogloss.yaml")
		ports, err := testrig.Addresses(2)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(configuration, "listen: ") {
			configuration = fmt.Sprintf("listen: %s\nadmin: { listen: %q }\n", ports[0], ports[1]) + configuration
		}
		if err := os.WriteFile(p.Config, []byte(configuration), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if p.Env == nil {
		p.Env = noEnvironment
	}
	if p.Version == "" {
		p.Version = "test"
	}
	in, done := p.Doctor(t.Context(), p.spend)
	defer done()
	if p.change != nil {
		p.change(in)
	}
	told := 0
	all := in.Run(t.Context(), func(doctor.Result) { told++ })
	if told != len(all) {
		t.Errorf("%d of %d results were told", told, len(all))
	}
	return all
}

// finding is what a doctor has to say.
type finding struct {
	check         string
	status        doctor.Status
	cause, remedy string
}

// wantFinding fails unless a result names the cause and the remedy, and unless every failure and warning has a remedy.
func wantFinding(t *testing.T, all []doctor.Result, want finding) {
	t.Helper()
	found := false
	for _, r := range all {
		found = found || r.Check == want.check && r.Status == want.status && strings.Contains(r.Text, want.cause) && strings.Contains(r.Remedy, want.remedy)
		if (r.Status == doctor.Failure || r.Status == doctor.Warning) && r.Remedy == "" {
			t.Errorf("%s %s has no remedy: %s", r.Check, r.Of, r.Text)
		}
	}
	if !found {
		t.Errorf("want %+v; the results are\n%s", want, resultsText(all))
	}
}

func resultsText(all []doctor.Result) string {
	var b strings.Builder
	for _, r := range all {
		doctor.Print(&b, r)
	}
	return b.String()
}

const oneModel = "models: { m: { targets: [up/m] } }\n"

// providerAt returns a configuration with one provider.
func providerAt(url, more string) string {
	return fmt.Sprintf("providers: { up: { protocol: openai-chat, base_url: %q, api_key: sk-test-0123456789%s } }\n", url, more) + oneModel
}

// listing serves a list of models to those who have the key.
func listing(t *testing.T, key string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(listFor(key))
	t.Cleanup(s.Close)
	return s
}

func listFor(key string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodHead && r.Header.Get("Authorization") != "":
			http.Error(w, "a credential is sent to find the way", http.StatusTeapot)
		case r.Method == http.MethodHead:
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Path != "/v1/models":
			http.NotFound(w, r)
		case r.Header.Get("Authorization") != "Bearer "+key:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"message":"Incorrect API key provided: ` + r.Header.Get("Authorization") + `","type":"invalid_request_error"}}`))
		default:
			_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"v"},{"id":"n","object":"model","created":1,"owned_by":"v"}]}`))
		}
	})
}

// certificate writes a self-signed certificate for 127.0.0.1 and its key.
func certificate(t *testing.T, from, to time.Time) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "A small CA"}, NotBefore: from, NotAfter: to, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// TestDoctorOfAGoodInstallation checks that nothing is wrong with what is in order, and that nothing was written.
func TestDoctorOfAGoodInstallation(t *testing.T) {
	up, redis := listing(t, "sk-test-0123456789"), storetest.RedisWith(t, "--appendonly", "yes")
	data := filepath.Join(t.TempDir(), "data")
	all := patient{}.examine(t, providerAt(up.URL+"/v1", "")+fmt.Sprintf("store: sqlite\ndata: %s\nredis: { url: %q }\n", data, redis.URL))
	for _, r := range all {
		if r.Status == doctor.Failure || r.Status == doctor.Warning {
			t.Errorf("%s %s: %s", r.Check, r.Of, r.Text)
		}
	}
	for _, want := range []finding{
		{"file", doctor.OK, "1 model, 1 provider", ""},
		{"route", doctor.OK, "connected to 127.0.0.1", ""},
		{"credential", doctor.OK, "its credential is accepted: 2 models listed", ""},
		{"port", doctor.OK, "is free", ""},
		{"redis", doctor.OK, "it evicts nothing", ""},
		{"store", doctor.Note, "the first start creates it", ""},
		{"clock", doctor.OK, "from the clocks of 2 servers", ""},
		{"limits", doctor.OK, "connections of clients", ""},
	} {
		wantFinding(t, all, want)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the data folder was created: %v", err)
	}
	if keys, err := storetest.RedisCLI(redis.Addr, "DBSIZE"); err != nil || strings.TrimSpace(keys) != "0" {
		t.Errorf("Redis has %s keys, %v", keys, err)
	}
	if got := doctor.Worst(all); got != doctor.Note {
		t.Errorf("the worst is %s", got)
	}
}

// TestDoctorOfFiles breaks the file, the ports, the certificates and the data folder.
func TestDoctorOfFiles(t *testing.T) {
	up := listing(t, "sk-test-0123456789")
	good := providerAt(up.URL+"/v1", "")
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	withData := func(t *testing.T) (dir, text string) {
		dir = t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir, good + "store: sqlite\ndata: " + dir + "\n"
	}
	for name, c := range map[string]struct {
		broken func(*testing.T) string
		want   finding
	}{
		"a mistake of YAML": {func(*testing.T) string { return "providers: { up: [\n" }, finding{"file", doctor.Failure, "isogloss.yaml:", ""}},
		"an unknown key":    {func(*testing.T) string { return good + "limit: { body: 1MiB }\n" }, finding{"file", doctor.Failure, "limit", "limits"}},
		"an unset variable": {func(*testing.T) string { return strings.Replace(good, "sk-test-0123456789", "${VENDOR_KEY}", 1) },
			finding{"file", doctor.Failure, "needs the environment variable VENDOR_KEY, which is not set", "set it"}},
		"what depends on an unset variable": {func(*testing.T) string { return strings.Replace(good, "sk-test-0123456789", "${VENDOR_KEY}", 1) },
			finding{"credential", doctor.Skipped, "a variable in providers.up is not set here", "unit or its environment file"}},
		"a port that is held": {func(*testing.T) string { return "listen: " + held.Addr().String() + "\n" + good },
			finding{"port", doctor.Failure, fmt.Sprintf("is held by app.test (process %d", os.Getpid()), fmt.Sprintf("stop process %d, or write another address as listen", os.Getpid())}},
		"an address of another machine": {func(*testing.T) string { return good + "metrics: { listen: \"192.0.2.1:9\" }\n" },
			finding{"port", doctor.Failure, "192.0.2.1:9 is no address of this machine", "metrics.listen"}},
		"an expired certificate": {func(t *testing.T) string {
			cert, key := certificate(t, time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour))
			return good + fmt.Sprintf("tls: { cert: %s, key: %s }\n", cert, key)
		}, finding{"certificate", doctor.Failure, "has expired on", "renew it"}},
		"a certificate that ends soon": {func(t *testing.T) string {
			cert, key := certificate(t, time.Now().Add(-time.Hour), time.Now().Add(5*24*time.Hour+time.Hour))
			return good + fmt.Sprintf("tls: { cert: %s, key: %s }\n", cert, key)
		}, finding{"certificate", doctor.Warning, "in 5 days", "renew it"}},
		"a missing certificate": {func(*testing.T) string { return good + "tls: { cert: nowhere.pem, key: nowhere.key }\n" },
			finding{"file", doctor.Failure, "nowhere.pem", "write the files of a certificate and its key"}},
		"a data folder without the right to write": {func(t *testing.T) string {
			dir, text := withData(t)
			if err := os.Chmod(dir, 0o500); err != nil {
				t.Fatal(err)
			}
			return text
		}, finding{"data", doctor.Failure, "cannot be written by its owner (mode 500)", "chmod 700"}},
		"a data folder that others can read": {func(t *testing.T) string {
			dir, text := withData(t)
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			return text
		}, finding{"data", doctor.Warning, "can be read by other users (mode 755)", "chmod 700"}},
		"a file of another user in the data folder": {func(t *testing.T) string {
			dir, text := withData(t)
			file := filepath.Join(dir, "isogloss.db-wal")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			asRoot(t, os.Chown(dir, 65534, 65534))
			return text
		}, finding{"data", doctor.Failure, "isogloss.db-wal belongs to user root, and the folder to nobody", "chown -R nobody"}},
		"a full disk": {func(t *testing.T) string {
			dir, text := withData(t)
			mounted(t, dir, 0)
			return text
		}, finding{"data", doctor.Failure, "the disk is full", "free some space"}},
		"a read-only disk": {func(t *testing.T) string {
			dir, text := withData(t)
			mounted(t, dir, syscall.MS_RDONLY)
			return text
		}, finding{"data", doctor.Failure, "the file system is read-only", "mount it for writing"}},
		"two data folders": {func(t *testing.T) string {
			dir, text := withData(t)
			if err := running.WriteMarker(running.Identity{Configuration: "/etc/isogloss/other.yaml", Data: dir}); err != nil {
				t.Fatal(err)
			}
			return text
		}, finding{"data", doctor.Failure, "was last used by the gateway of /etc/isogloss/other.yaml", "name that file with -c"}},
		"a data folder that is a file": {func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "data")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return good + "store: sqlite\ndata: " + file + "\n"
		}, finding{"data", doctor.Failure, "is not a folder", "write a folder as data"}},
		"a file that is no database": {func(t *testing.T) string {
			dir, text := withData(t)
			for _, file := range []string{"isogloss.db", "pepper"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.Repeat("no database", 100)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return text
		}, finding{"store", doctor.Failure, "not a database", "docs/operations/backup.md"}},
		"a database without its pepper": {func(t *testing.T) string {
			dir, text := withData(t)
			if err := os.WriteFile(filepath.Join(dir, "isogloss.db"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return text
		}, finding{"file", doctor.Failure, "there is no pepper", "put it back from its backup"}},
	} {
		t.Run(name, func(t *testing.T) { wantFinding(t, patient{}.examine(t, c.broken(t)), c.want) })
	}
	t.Run("nothing", func(t *testing.T) {
		cfg, wrong := Options{Env: noEnvironment}.findRunning()
		in := &doctor.Installation{Config: cfg, Wrong: wrong, Now: time.Now}
		wantFinding(t, in.Run(t.Context(), func(doctor.Result) {}), finding{"file", doctor.Warning, "no configuration file, and no key of a provider", "isogloss init"})
	})
}

// asRoot skips a test that only root can make.
func asRoot(t *testing.T, err error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can do this: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// mounted mounts a small file system on a folder.
func mounted(t *testing.T, dir string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount("none", dir, "tmpfs", flags, "size=1m,mode=700"); err != nil {
		t.Skip("file systems cannot be mounted here: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
}

// TestDoctorOfProviders breaks what is between the gateway and a provider.
func TestDoctorOfProviders(t *testing.T) {
	const key = "sk-test-0123456789"
	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL + "/v1"
	}
	status := func(code int) string {
		return serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	secure := httptest.NewUnstartedServer(listFor(key))
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	t.Cleanup(secure.Close)
	expired := httptest.NewUnstartedServer(listFor(key))
	certFile, keyFile := certificate(t, time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour))
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	expired.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	expired.StartTLS()
	t.Cleanup(expired.Close)
	away, err := testrig.Address()
	if err != nil {
		t.Fatal(err)
	}
	carried := make(chan string, 10)
	elsewhere := serve(func(_ http.ResponseWriter, r *http.Request) { carried <- r.Header.Get("Authorization") })
	for name, c := range map[string]struct {
		url, more string
		want      finding
	}{
		"a revoked key":                   {listing(t, "another").URL + "/v1", "", finding{"credential", doctor.Failure, "it refuses the credential (status 401)", "make a new key at the vendor, and set it as api_key of providers.up"}},
		"a key without rights":            {status(http.StatusForbidden), "", finding{"credential", doctor.Failure, "(status 403)", "make a new key"}},
		"a provider out of quota":         {status(http.StatusTooManyRequests), "", finding{"credential", doctor.Warning, "limits requests (status 429)", "balance of the account"}},
		"a provider that fails":           {status(http.StatusBadGateway), "", finding{"credential", doctor.Warning, "it fails (status 502)", "status page"}},
		"a path that is wrong":            {listing(t, key).URL + "/v2", "", finding{"credential", doctor.Note, "no list of models there (status 404)", "base_url"}},
		"a page instead of a list":        {serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }), "", finding{"credential", doctor.Warning, "is no list of models", "base_url"}},
		"a provider that redirects":       {serve(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) }), "", finding{"credential", doctor.Failure, "redirects (status 302)", "final address"}},
		"a name that does not resolve":    {"https://nowhere.invalid/v1", "", finding{"route", doctor.Failure, "nowhere.invalid", "DNS"}},
		"nothing listens":                 {"http://" + away + "/v1", "", finding{"route", doctor.Failure, "the connection is refused", "start the server, or correct providers.up.base_url"}},
		"a CA that nobody knows":          {secure.URL + "/v1", "", finding{"route", doctor.Failure, "which this machine does not trust", "SSL_CERT_FILE"}},
		"an expired server's certificate": {expired.URL + "/v1", "", finding{"route", doctor.Failure, "the server's certificate is valid from", "renew the server's certificate, or set this machine's clock"}},
		"TLS to a server without it":      {strings.Replace(listing(t, key).URL, "http:", "https:", 1) + "/v1", "", finding{"route", doctor.Failure, "it does not speak TLS", "write http://"}},
		"a provider with another clock": {serve(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(-3*time.Hour).UTC().Format(http.TimeFormat))
			listFor(key).ServeHTTP(w, r)
		}), "", finding{"clock", doctor.Failure, "this machine's clock is 3h0m", "timedatectl"}},
		"a token count of a model that does not exist": {listing(t, key).URL + "/v1", "", finding{"credential", doctor.Failure, "m: a short request fails: status 404, not_found", "check the model's name"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := patient{spend: true}.examine(t, providerAt(c.url, c.more))
			wantFinding(t, all, c.want)
			if text := resultsText(all); strings.Contains(text, key) {
				t.Errorf("the results have the key:\n%s", text)
			}
		})
	}
	select {
	case header := <-carried:
		t.Errorf("the redirect was followed, with %q", header)
	default:
	}
	t.Run("what a short request uses", func(t *testing.T) {
		var asked sync.Map
		up := serve(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked.Store(r.URL.Path, string(body))
			switch r.URL.Path {
			case "/v1/chat/completions":
				_, _ = w.Write([]byte(`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"pong"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`))
			case "/v1/messages/count_tokens":
				_, _ = w.Write([]byte(`{"input_tokens":9}`))
			case "/v1/models":
				_, _ = w.Write([]byte(`{"object":"list","data":[{"type":"model","id":"m","display_name":"M","created_at":"2026-01-01T00:00:00Z"}],"has_more":false}`))
			}
		})
		all := patient{spend: true}.examine(t, fmt.Sprintf(`
providers: { up: { protocol: openai-chat, base_url: %q, api_key: %s }, claude: { protocol: anthropic, base_url: %q, api_key: %[2]s } }
models: { m: { targets: [up/m, claude/m2] } }
`, up, key, strings.TrimSuffix(up, "/v1")))
		wantFinding(t, all, finding{"credential", doctor.OK, "m: a short request has used 7 input and 3 output tokens", ""})
		wantFinding(t, all, finding{"credential", doctor.OK, "m2: a token count says 9 tokens", ""})
		if body, _ := asked.Load("/v1/chat/completions"); body == nil || !strings.Contains(body.(string), `:16`) || !strings.Contains(body.(string), `"model":"m"`) {
			t.Errorf("the request is %v", body)
		}
	})
	t.Run("no key", func(t *testing.T) {
		all := patient{}.examine(t, strings.Replace(providerAt(listing(t, key).URL+"/v1", ""), ", api_key: "+key, "", 1))
		wantFinding(t, all, finding{"credential", doctor.Failure, "none is configured", "write api_key"})
	})
	t.Run("a worker that is away", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "workers.json")
		if err := os.WriteFile(file, fmt.Appendf(nil, `[{"id":"w","model":"llama","url":"http://%s/v1","protocol":"openai-chat"}]`, away), 0o600); err != nil {
			t.Fatal(err)
		}
		all := patient{}.examine(t, fmt.Sprintf("discover: { file: %s, networks: [127.0.0.0/8] }\ndata: %s\n", file, t.TempDir()))
		wantFinding(t, all, finding{"engines", doctor.Failure, "the connection is refused", "start it, or remove its registration"})
	})
}

// storeVersions returns the versions of tables that this program has.
func storeVersions(t *testing.T) db.Facts {
	t.Helper()
	f, err := store.Examine(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestDoctorOfStores breaks real stores.
func TestDoctorOfStores(t *testing.T) {
	up := listing(t, "sk-test-0123456789")
	good := providerAt(up.URL+"/v1", "") + "data: " + t.TempDir() + "\n"
	withStore := func(url, more string) string {
		return good + fmt.Sprintf("store: { url: %q, peppers: [a-pepper-of-at-least-thirty-two-characters] }\n", url) + more
	}
	away, err := testrig.Address()
	if err != nil {
		t.Fatal(err)
	}
	inMemory := storetest.Redis(t)
	pg := storetest.Postgres(t)
	pool, err := sql.Open("pgx", pg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	run := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := pool.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	access := filepath.Join(pg.Dir(), "pg_hba.conf")
	rules, err := os.ReadFile(access)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(access, append([]byte("host all gateway all scram-sha-256\n"), rules...), 0o600); err != nil {
		t.Fatal(err)
	}
	run(`CREATE ROLE gateway LOGIN PASSWORD 'right'`, `SELECT pg_reload_conf()`)
	database := func(name string, version int) string {
		run("CREATE DATABASE " + name)
		url := strings.Replace(pg.URL, "/postgres?", "/"+name+"?", 1)
		one, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		if _, err := one.ExecContext(t.Context(), fmt.Sprintf(`CREATE TABLE schema_steps (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, taken BIGINT NOT NULL); INSERT INTO schema_steps VALUES (%d, 'x', 0)`, version)); err != nil {
			t.Fatal(err)
		}
		return url
	}
	broken := storetest.EtcdCluster(t, 3)
	var endpoints []string
	for _, s := range broken {
		endpoints = append(endpoints, fmt.Sprintf("%q", s.URL))
	}
	broken[1].Kill()
	broken[2].Kill()
	etcd := func(list string) string {
		return good + "discover: { etcd: { endpoints: [" + list + "] }, networks: [127.0.0.0/8] }\n"
	}
	redis := func(url string) string { return withStore(pg.URL, fmt.Sprintf("redis: { url: %q }\n", url)) }
	noKeys := httptest.NewServer(nil)
	t.Cleanup(noKeys.Close)
	noKeys.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			_, _ = w.Write([]byte(`{"keys":[]}`))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": noKeys.URL, "jwks_uri": noKeys.URL + "/keys"})
	})
	identity := func(url string) string {
		return withStore(pg.URL, fmt.Sprintf("identity: { issuers: [{ issuer: %q, audiences: [isogloss], rules: [{ when: { groups: a }, team: a, org: a }] }] }\n", url))
	}
	for name, c := range map[string]struct {
		text   string
		change func(*doctor.Installation)
		want   finding
	}{
		"PostgreSQL that is away":           {withStore("postgres://u@"+away+"/d", ""), nil, finding{"store", doctor.Failure, "the connection is refused", "store.url"}},
		"a wrong password":                  {withStore(strings.Replace(pg.URL, "postgres@", "gateway:wrong-s3cret@", 1), ""), nil, finding{"store", doctor.Failure, "password authentication failed", "correct the password in store.url"}},
		"a database that does not exist":    {withStore(strings.Replace(pg.URL, "/postgres?", "/nothing?", 1), ""), nil, finding{"store", doctor.Failure, "does not exist (SQLSTATE 3D000)", "create the database"}},
		"an older schema":                   {withStore(database("older", int(storeVersions(t).Need-1)), ""), nil, finding{"store", doctor.Warning, "the tables have the older version", "upgrade.md"}},
		"a schema that is too old":          {withStore(database("oldest", int(storeVersions(t).First-1)), ""), nil, finding{"store", doctor.Failure, "this program migrates from version", "older program"}},
		"a newer schema":                    {withStore(database("newer", int(storeVersions(t).Need+1)), ""), nil, finding{"store", doctor.Warning, "a newer gateway uses the store", "install the version of the other gateways"}},
		"PgBouncer in statement mode":       {withStore(storetest.PgBouncerIn(t, "statement", pg).URL, ""), nil, finding{"store", doctor.Failure, "PgBouncer is in statement mode", "pool_mode = transaction"}},
		"PgBouncer in transaction mode":     {withStore(storetest.PgBouncer(t, pg).URL, ""), nil, finding{"store", doctor.OK, "behind a pooler in transaction mode", ""}},
		"PgBouncer in session mode":         {withStore(storetest.PgBouncerIn(t, "session", pg).URL, ""), nil, finding{"store", doctor.OK, "behind a pooler in session mode", ""}},
		"Redis that evicts":                 {redis(storetest.RedisWith(t, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru").URL), nil, finding{"redis", doctor.Warning, "its policy allkeys-lru deletes counters", "set maxmemory-policy noeviction"}},
		"Redis without persistence":         {redis(inMemory.URL), nil, finding{"redis", doctor.Note, "it writes nothing to disk", "set appendonly yes"}},
		"Redis with another password":       {redis("redis://:wrong-s3cret@" + storetest.RedisWith(t, "--requirepass", "right").Addr + "/0"), nil, finding{"redis", doctor.Failure, "it refuses the password", "redis.url"}},
		"Redis that is away":                {redis("redis://" + away + "/0"), nil, finding{"redis", doctor.Failure, "the connection is refused", "redis.url"}},
		"etcd without quorum":               {etcd(strings.Join(endpoints, ", ")), nil, finding{"etcd", doctor.Failure, "1 of 3 members reached, which is no majority", "more than half of them must run"}},
		"etcd that is away":                 {etcd(`"http://` + away + `"`), nil, finding{"etcd", doctor.Failure, "etcd", "discover.etcd.endpoints"}},
		"Kafka that is away":                {withStore(pg.URL, "usage: { sink: { kafka: { brokers: [\""+away+"\"], topic: usage } } }\n"), nil, finding{"usage log", doctor.Failure, "Kafka: ", "usage.sink.kafka.brokers"}},
		"NATS that is away":                 {withStore(pg.URL, "usage: { sink: { nats: { servers: [\"nats://"+away+"\"], stream: usage } } }\n"), nil, finding{"usage log", doctor.Failure, "NATS: ", "usage.sink.nats.servers"}},
		"ClickHouse that is away":           {withStore(pg.URL, "usage: { sink: { nats: { servers: [\"nats://"+away+"\"], stream: usage } }, clickhouse: { url: \"http://"+away+"\" } }\n"), nil, finding{"clickhouse", doctor.Failure, "the connection is refused", "usage.clickhouse"}},
		"an identity provider without keys": {identity(noKeys.URL), nil, finding{"identity", doctor.Failure, "the key set has no key", "nobody can sign in"}},
		"an identity provider that is away": {identity("http://" + away), nil, finding{"identity", doctor.Failure, "the connection is refused", "identity.issuers"}},
		"a wrong clock": {redis(inMemory.URL), func(in *doctor.Installation) { in.Now = func() time.Time { return time.Now().Add(10 * time.Minute) } },
			finding{"clock", doctor.Failure, "this machine's clock is 10m0s ahead of", "timedatectl"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := patient{change: c.change}.examine(t, c.text)
			wantFinding(t, all, c.want)
			if text := resultsText(all); strings.Contains(text, "s3cret") {
				t.Errorf("the results have a password:\n%s", text)
			}
		})
	}
	var tables int
	if err := pool.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables); err != nil || tables != 0 {
		t.Errorf("the database has %d tables, %v", tables, err)
	}
}

// TestDoctorBesideAGateway looks at a gateway that runs: its version, its configuration and its ports.
func TestDoctorBesideAGateway(t *testing.T) {
	up := listing(t, "sk-test-0123456789")
	ports, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("listen: %s\nadmin: { listen: %q }\ndata: %s\nstore: sqlite\n", ports[0], ports[1], filepath.Join(t.TempDir(), "data")) + providerAt(up.URL+"/v1", "")
	p := quick()
	p.look = time.Hour // the file is loaded when the test says so
	g := start(t, text, p)
	testrig.Eventually(t, "the gateway answers commands", func() bool {
		all := patient{Options: Options{Config: g.file}}.examine(t, "")
		return strings.Contains(resultsText(all), "its configuration is this one")
	})
	all := patient{Options: Options{Config: g.file}}.examine(t, "")
	for _, want := range []finding{
		{"gateway", doctor.OK, "version test on " + ports[0], ""},
		{"port", doctor.OK, "the gateway has it (process", ""},
		{"limits", doctor.OK, "are open", ""},
		{"store", doctor.OK, "which this program needs", ""},
	} {
		wantFinding(t, all, want)
	}
	for _, r := range all {
		if r.Status == doctor.Failure {
			t.Errorf("%s: %s", r.Check, r.Text)
		}
	}
	all = patient{Options: Options{Config: g.file, Version: "v9.9.9"}}.examine(t, "")
	wantFinding(t, all, finding{"gateway", doctor.Warning, "this program has version v9.9.9", "restart the gateway"})
	g.write(t, strings.Replace(text, "models: { m:", "fidelity: strict\nmodels: { other:", 1))
	all = patient{Options: Options{Config: g.file}}.examine(t, "")
	wantFinding(t, all, finding{"gateway", doctor.Warning, "other settings than this file gives here: fidelity, models", "reload the gateway if the file is newer"})
	g.write(t, strings.Replace(text, "data: ", "data: /elsewhere", 1))
	all = patient{Options: Options{Config: g.file}}.examine(t, "")
	wantFinding(t, all, finding{"gateway", doctor.Failure, "/elsewhere", "restart the gateway with this file"})

	g.write(t, text)
	in, done := (Options{Config: g.file, Env: noEnvironment, Version: "test"}).Doctor(t.Context(), false)
	defer done()
	results := in.Run(t.Context(), func(doctor.Result) {})
	file := filepath.Join(t.TempDir(), "bundle.txt")
	if err := in.WriteBundle(t.Context(), file, results); err != nil {
		t.Fatal(err)
	}
	bundle, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"== Versions ==", "gateway: test", "its configuration is this one", "providers.up.base_url: " + up.URL, "isogloss_build_info", `"msg":"listening"`, "api_key: ***"} {
		if !strings.Contains(string(bundle), want) {
			t.Errorf("the bundle lacks %q:\n%.3000s", want, bundle)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the bundle has mode %v, %v", info.Mode(), err)
	}
	if err := in.WriteBundle(t.Context(), file, results); err == nil || !strings.Contains(err.Error(), "exists; write another name") {
		t.Errorf("a bundle over another: %v", err)
	}
}

// TestDoctorAfterARefusedFile looks at a gateway that has refused its changed file, and at one that waits for a restart.
func TestDoctorAfterARefusedFile(t *testing.T) {
	up := listing(t, "sk-test-0123456789")
	text := providerAt(up.URL+"/v1", "") + "listen: 127.0.0.1:0\nadmin: { listen: \"127.0.0.1:0\" }\n"
	g := start(t, text, quick())
	results := func() string {
		return resultsText(patient{Options: Options{Config: g.file}}.examine(t, ""))
	}
	g.replace(t, text+"nonsense: 1\n")
	g.log.waitFor(t, "the changed configuration is refused", 1)
	testrig.Eventually(t, "the refusal is named", func() bool {
		got := results()
		return strings.Contains(got, "the gateway has refused the changed file and runs with the old one") && strings.Contains(got, "nonsense")
	})
	g.replace(t, text+"node: another\n")
	g.log.waitFor(t, "changed settings take effect at the next start", 1)
	testrig.Eventually(t, "the setting that waits is named", func() bool {
		return strings.Contains(results(), "changed settings wait for a restart of the gateway: node")
	})
}

// TestDoctorOfHostileServers has every server of an installation send what no honest one does, or nothing. The results
// are printable and short, no check fails on them, and all of it ends in time.
func TestDoctorOfHostileServers(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"garbage": func(c net.Conn) { _, _ = c.Write([]byte("\x00\x1b[31m\xff\r\n-ERR \x1b]0;x\x07\r\n\u202e")) },
		"an endless response": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"data\":[")
			for err := error(nil); err == nil; {
				_, err = io.WriteString(c, strings.Repeat(`{"id":"`+"\x1b"+`[2J"},`, 1000))
			}
		},
		"a redirect": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:9/\x1b[2J\r\nContent-Length: 0\r\n\r\n")
		},
		"silence": func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var work sync.WaitGroup
			work.Go(func() {
				for c, err := l.Accept(); err == nil; c, err = l.Accept() {
					work.Go(func() {
						defer c.Close()
						context.AfterFunc(t.Context(), func() { _ = c.Close() })
						serve(c)
					})
				}
			})
			t.Cleanup(work.Wait)
			t.Cleanup(func() { _ = l.Close() })
			at := l.Addr().String()
			all := patient{}.examine(t, providerAt("http://"+at+"/v1", "")+fmt.Sprintf(`
data: %[2]s
store: { url: "postgres://u:s3cret-password@%[1]s/d?sslmode=disable", peppers: [a-pepper-of-at-least-thirty-two-characters] }
redis: { url: "redis://:s3cret-password@%[1]s/0" }
usage: { sink: { kafka: { brokers: ["%[1]s"], topic: usage } }, clickhouse: { url: "http://%[1]s", username: u, password: s3cret-password } }
discover: { etcd: { endpoints: ["http://%[1]s"] }, networks: [127.0.0.0/8] }
identity: { issuers: [{ issuer: "http://%[1]s", audiences: [isogloss], rules: [{ when: { groups: a }, team: a, org: a }] }] }
`, at, t.TempDir()))
			text := resultsText(all)
			for _, check := range []string{"store", "redis", "usage log", "clickhouse", "etcd", "identity"} {
				wantFinding(t, all, finding{check: check, status: doctor.Failure})
			}
			if strings.Contains(text, "the check failed on what it read") || strings.Contains(text, "s3cret") || len(text) > 20_000 || !plain.IsLine(strings.ReplaceAll(text, "\n", "")) {
				t.Errorf("%d bytes: %.6000q", len(text), text)
			}
		})
	}
}
