package app

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// startSTS starts a scripted STS, whose access keys name the role that is assumed, and sets the
// environment of the AWS SDK. It counts the tokens that it gave.
func startSTS(t *testing.T) *atomic.Int64 {
	t.Helper()
	var count atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // a request without a form has no role
		role := r.Form.Get("RoleArn")
		n := count.Add(1)
		_, _ = fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials><AccessKeyId>ASIA%s</AccessKeyId><SecretAccessKey>secret-of-role-%d</SecretAccessKey><SessionToken>session-of-role-%d</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
			strings.ToUpper(role[strings.LastIndexByte(role, '/')+1:]), n, n, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for name, value := range map[string]string{"AWS_ENDPOINT_URL_STS": server.URL, "AWS_ACCESS_KEY_ID": "AKIAGATEWAY", "AWS_SECRET_ACCESS_KEY": "secret-of-gateway", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": filepath.Join(dir, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "credentials")} {
		t.Setenv(name, value)
	}
	return &count
}

// TestCloudCredentials serves requests with two roles of one vendor: each is assumed once, one
// that is limited cools down while the other serves, a refused token is renewed within the
// request, a reload keeps the tokens, and neither log nor responses show them.
func TestCloudCredentials(t *testing.T) {
	tokens := startSTS(t)
	up := upstreamtest.New(t)
	var limited, refused atomic.Value
	limited.Store("")
	refused.Store("")
	up.Answer(func(c *upstreamtest.Conn) {
		session, by := c.Request.Header.Get("X-Amz-Security-Token"), c.Request.Header.Get("Authorization")
		switch {
		case !strings.HasPrefix(by, "AWS4-HMAC-SHA256 Credential=ASIA") || !strings.Contains(by, "/eu-central-1/bedrock/aws4_request"):
			c.Whole(http.StatusForbidden, "application/json", `{"message":"not signed"}`)
		case session == refused.Load():
			c.Whole(http.StatusForbidden, "application/json", fmt.Sprintf(`{"message":"The security token %s included in the request is expired"}`, session))
		case strings.Contains(by, "ASIA"+limited.Load().(string)+"/"):
			c.Whole(http.StatusTooManyRequests, "application/json", `{"message":"Too many requests"}`, "Retry-After", "30")
		default:
			echo(c)
		}
	})
	configuration := func(models string) string {
		return fmt.Sprintf(`
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
providers:
  one: {protocol: openai-chat, base_url: %q, region: eu-central-1, auth: aws, aws: {roles: ["arn:aws:iam::123456789012:role/one"]}}
  two: {protocol: openai-chat, base_url: %q, region: eu-central-1, auth: aws, aws: {roles: ["arn:aws:iam::123456789012:role/two"]}}
models:
  %s: {targets: [one/x, two/x]}
`, up.BaseURL(), up.BaseURL(), models)
	}
	g := start(t, configuration("m"), quick())
	ask := func(model string) (int, string, string) {
		t.Helper()
		resp, err := g.ask(model, false)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), up.Last(t).Header.Get("Authorization")
	}
	if status, body, by := ask("m"); status != http.StatusOK || !strings.Contains(by, "ASIAONE/") {
		t.Fatal(status, body, by)
	}
	limited.Store("ONE")
	for range 3 {
		if status, body, by := ask("m"); status != http.StatusOK || !strings.Contains(by, "ASIATWO/") {
			t.Fatal(status, body, by)
		}
	}
	ones := 0
	for _, r := range up.Requests() {
		if strings.Contains(r.Header.Get("Authorization"), "ASIAONE/") {
			ones++
		}
	}
	if ones != 2 {
		t.Errorf("%d requests with the first role, want one that is served and one that is limited", ones)
	}
	if n := tokens.Load(); n != 2 {
		t.Errorf("%d tokens were issued for two roles", n)
	}
	refused.Store(up.Last(t).Header.Get("X-Amz-Security-Token"))
	if status, body, by := ask("m"); status != http.StatusOK || !strings.Contains(by, "ASIATWO/") {
		t.Error(status, body, by)
	}
	g.replace(t, configuration("n"))
	g.waitForModels(t, "n")
	limited.Store("")
	if status, body, _ := ask("n"); status != http.StatusOK {
		t.Error(status, body)
	}
	if n := tokens.Load(); n != 3 {
		t.Errorf("%d tokens were issued, want one more for the refused one", n)
	}
	for _, secret := range []string{"secret-of", "session-of", "ASIA"} {
		if strings.Contains(g.log.String(), secret) {
			t.Errorf("the log shows %s:\n%s", secret, g.log)
		}
	}
}

// TestRotatedKey uses the key of a replaced file for the next request, without a reload.
func TestRotatedKey(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	path := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("key-number-0")
	g := start(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: \"127.0.0.1:0\"}\nproviders:\n  p: {protocol: openai-chat, base_url: %q, api_key: \"${FILE:%s}\"}\nmodels:\n  m: {targets: [p/x]}\n", up.BaseURL(), path), quick())
	for n := range 5 {
		write(fmt.Sprintf("key-number-%d\n", n))
		resp, err := g.ask("m", false)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		_ = resp.Body.Close()
		if got, want := up.Last(t).Header.Get("Authorization"), fmt.Sprintf("Bearer key-number-%d", n); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if strings.Contains(g.log.String(), "configuration loaded") {
		t.Error("the configuration was loaded again")
	}
}

// TestCheckOfClouds reports credentials that the gateway does not use, with what to do.
func TestCheckOfClouds(t *testing.T) {
	startSTS(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"config": "[profile run]\ncredential_process = /bin/keys\n", "exec.json": `{"type":"external_account","credential_source":{"executable":{"command":"/bin/keys"}}}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	file := filepath.Join(dir, "isogloss.yaml")
	const text = `
listen: 127.0.0.1:0
providers:
  a: {protocol: openai-chat, base_url: "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1", auth: aws, aws: {profile: run}}
  b: {protocol: gemini, base_url: "https://aiplatform.googleapis.com", auth: google, google: {credentials: exec.json}}
  c: {preset: azure, base_url: "https://r.openai.azure.com/openai/v1", auth: azure, azure: {tenant: t, client: c, certificate: absent.pem}}
models:
  m: {targets: [a/x]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Config: file, Env: noEnvironment, Log: new(bytes.Buffer)}
	_, checked := o.Check()
	ran := Run(t.Context(), o)
	if checked == nil || ran == nil || checked.Error() != ran.Error() {
		t.Fatalf("check reports %v, and run %v", checked, ran)
	}
	for _, want := range []string{
		`providers.a.aws: the profile "run" has credential_process, which the gateway does not run; use a role`,
		"providers.b.google: the file " + dir + "/exec.json has credential_source.executable, which the gateway does not run; use a file",
		"providers.c.azure: needs a file: open " + dir + "/absent.pem: no such file or directory; create it, or write another path as azure.certificate",
	} {
		if !strings.Contains(checked.Error(), want) {
			t.Errorf("%v\nwant %s", checked, want)
		}
	}
}
