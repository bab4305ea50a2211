package cloud

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// amazon is a scripted STS, instance metadata service, pod identity agent and SSO portal.
type amazon struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request // with their forms
	skew     time.Duration   // of its clock
	status   int             // of every response; 0: 200
}

func newAmazon(t *testing.T) *amazon {
	t.Helper()
	a := &amazon{}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	dir := t.TempDir()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_STS": a.URL, "AWS_ENDPOINT_URL_SSO": a.URL, "AWS_EC2_METADATA_SERVICE_ENDPOINT": a.URL, "HOME": dir,
		"AWS_CONFIG_FILE": filepath.Join(dir, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "credentials"),
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": "", "AWS_MAX_ATTEMPTS": "1",
		"AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_ROLE_ARN": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "",
	} {
		t.Setenv(name, value)
	}
	return a
}

func (a *amazon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // STS takes forms, the others have no body
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, r)
	now := time.Now().Add(a.skew)
	w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
	if a.status != 0 {
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(`<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not authorized to assume</Message></Error></ErrorResponse>`))
		return
	}
	expires := now.Add(time.Hour).UTC().Format(time.RFC3339)
	switch {
	case r.Form.Get("Action") != "":
		action, n := r.Form.Get("Action"), len(a.requests)
		_, _ = fmt.Fprintf(w, `<%sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%sResult><Credentials><AccessKeyId>ASIA%012d</AccessKeyId><SecretAccessKey>secret-%d</SecretAccessKey><SessionToken>session-%d</SessionToken><Expiration>%s</Expiration></Credentials></%sResult></%sResponse>`,
			action, action, n, n, n, expires, action, action)
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
		_, _ = w.Write([]byte("imds-token"))
	case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
		_, _ = w.Write([]byte("role-of-instance"))
	case strings.Contains(r.URL.Path, "/security-credentials/"), r.URL.Path == "/v1/credentials":
		_ = json.NewEncoder(w).Encode(map[string]string{"Code": "Success", "AccessKeyId": "ASIAINSTANCE", "SecretAccessKey": "secret-i", "Token": "session-i", "Expiration": expires})
	case r.URL.Path == "/federation/credentials":
		_ = json.NewEncoder(w).Encode(map[string]any{"roleCredentials": map[string]any{"accessKeyId": "ASIASSO", "secretAccessKey": "secret-s", "sessionToken": "session-s", "expiration": now.Add(time.Hour).UnixMilli()}})
	default:
		http.NotFound(w, r)
	}
}

// signed signs a request with the credential that an AWS configuration gives.
func signed(t *testing.T, a *provider.AWS) (*http.Request, *token, error) {
	t.Helper()
	client := newClient()
	defer client.CloseIdleConnections()
	a.Region, a.Service = "eu-central-1", "bedrock"
	made, err := (&awsVendor{a}).fetch(t.Context(), client)
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1/chat/completions", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return req, made, made.sign(time.Now(), req, []byte("{}"))
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAWSSources gets a credential from every source of the chain.
func TestAWSSources(t *testing.T) {
	cases := map[string]struct {
		prepare func(t *testing.T, a *amazon)
		aws     provider.AWS
		key     string // access key id
		session string
		local   bool // no end
	}{
		"environment": {func(t *testing.T, _ *amazon) {
			t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		}, provider.AWS{}, "AKIAENV", "", true},
		"profile": {func(t *testing.T, _ *amazon) {
			writeFile(t, os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), "[models]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = secret\n")
			t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENV") // a named profile comes first
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		}, provider.AWS{Profile: "models"}, "AKIAPROFILE", "", true},
		"profile with a role": {func(t *testing.T, _ *amazon) {
			writeFile(t, os.Getenv("AWS_CONFIG_FILE"), "[profile base]\naws_access_key_id = AKIABASE\naws_secret_access_key = secret\n[profile models]\nrole_arn = arn:aws:iam::123456789012:role/m\nsource_profile = base\n")
		}, provider.AWS{Profile: "models"}, "ASIA000000000001", "session-1", false},
		"SSO cache": {func(t *testing.T, _ *amazon) {
			writeFile(t, os.Getenv("AWS_CONFIG_FILE"), "[profile models]\nsso_session = s\nsso_account_id = 123456789012\nsso_role_name = m\n[sso-session s]\nsso_region = eu-central-1\nsso_start_url = https://example.awsapps.com/start\n")
			const sha1OfName = "a0f1490a20d0211c997b44bc357e1972deab8ae3"
			writeFile(t, filepath.Join(os.Getenv("HOME"), ".aws/sso/cache", sha1OfName+".json"), `{"accessToken":"sso-token","expiresAt":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
		}, provider.AWS{Profile: "models"}, "ASIASSO", "session-s", false},
		"web identity": {func(t *testing.T, _ *amazon) {
			path := filepath.Join(t.TempDir(), "token")
			writeFile(t, path, "jwt-of-the-pod")
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path)
			t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod")
		}, provider.AWS{}, "ASIA000000000001", "session-1", false},
		"pod identity": {func(t *testing.T, a *amazon) {
			path := filepath.Join(t.TempDir(), "token")
			writeFile(t, path, "pod-token")
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", a.URL+"/v1/credentials")
			t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path)
		}, provider.AWS{}, "ASIAINSTANCE", "session-i", false},
		"instance": {func(*testing.T, *amazon) {}, provider.AWS{}, "ASIAINSTANCE", "session-i", false},
		"chain of roles": {func(t *testing.T, _ *amazon) {
			t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		}, provider.AWS{Roles: []provider.Role{
			{ARN: "arn:aws:iam::123456789012:role/a", Session: "one", Tags: []provider.Tag{{Key: "team", Value: "search"}}, Transitive: []string{"team"}},
			{ARN: "arn:aws:iam::210987654321:role/b", Session: "two", ExternalID: "x-7", Duration: time.Hour},
		}}, "ASIA000000000002", "session-2", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := newAmazon(t)
			c.prepare(t, a)
			req, made, err := signed(t, &c.aws)
			if err != nil {
				t.Fatal(err)
			}
			if got := req.Header.Get("Authorization"); !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential="+c.key+"/") || !strings.Contains(got, "/eu-central-1/bedrock/aws4_request") {
				t.Error(got)
			}
			if got := req.Header.Get("X-Amz-Security-Token"); got != c.session {
				t.Errorf("session token %q, want %q", got, c.session)
			}
			if made.local() != c.local || !c.local && time.Until(made.expires).Round(time.Minute) != time.Hour {
				t.Errorf("ends in %s", time.Until(made.expires))
			}
			a.checkRequests(t, name)
		})
	}
}

// checkRequests checks what the sources sent.
func (a *amazon) checkRequests(t *testing.T, name string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	at := func(i int) *http.Request {
		if i >= len(a.requests) {
			t.Fatalf("%d requests", len(a.requests))
		}
		return a.requests[i]
	}
	switch name {
	case "web identity":
		if got := at(0).Form.Get("WebIdentityToken"); got != "jwt-of-the-pod" {
			t.Error(got)
		}
	case "pod identity":
		if got := at(0).Header.Get("Authorization"); got != "pod-token" {
			t.Error(got)
		}
	case "instance":
		for _, r := range a.requests[1:] {
			if r.Header.Get("X-Aws-Ec2-Metadata-Token") != "imds-token" {
				t.Errorf("%s without a token: that is IMDSv1", r.URL)
			}
		}
	case "SSO cache":
		if got := at(0).Header.Get("X-Amz-Sso_bearer_token"); got != "sso-token" {
			t.Error(got)
		}
	case "chain of roles":
		first, second := at(0).Form, at(1).Form
		if first.Get("RoleArn") != "arn:aws:iam::123456789012:role/a" || first.Get("Tags.member.1.Value") != "search" || first.Get("TransitiveTagKeys.member.1") != "team" || first.Get("RoleSessionName") != "one" {
			t.Error(first)
		}
		if second.Get("RoleArn") != "arn:aws:iam::210987654321:role/b" || second.Get("ExternalId") != "x-7" || second.Get("DurationSeconds") != "3600" {
			t.Error(second)
		}
		if !strings.Contains(at(1).Header.Get("Authorization"), "Credential=ASIA000000000001/") {
			t.Error("the second role is not assumed with the first")
		}
	}
}

// TestAWSIssuerClock converts the end of a token from the issuer's clock.
func TestAWSIssuerClock(t *testing.T) {
	roles := []provider.Role{{ARN: "arn:aws:iam::123456789012:role/a", Session: "one"}}
	for _, skew := range []time.Duration{-3 * time.Hour, 3 * time.Hour, 10 * time.Second} {
		for _, from := range []*provider.AWS{{}, {Roles: roles}} {
			a := newAmazon(t)
			a.skew = skew
			_, made, err := signed(t, from)
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(made.expires); (left - time.Hour).Abs() > minSkew {
				t.Errorf("clock %s ahead, %d roles: ends in %s", skew, len(from.Roles), left)
			}
		}
	}
}

// TestAWSRefusals reports an issuer that refuses, and is done at once with one that is dead.
func TestAWSRefusals(t *testing.T) {
	a := newAmazon(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-of-env")
	roles := &provider.AWS{Roles: []provider.Role{{ARN: "arn:aws:iam::123456789012:role/a", Session: "one"}}}
	a.status = http.StatusForbidden
	if _, _, err := signed(t, roles); err == nil || !strings.Contains(err.Error(), "AccessDenied") || strings.Contains(err.Error(), "secret-of-env") {
		t.Error(err)
	}
	a.Close()
	if _, _, err := signed(t, roles); err == nil {
		t.Error("a dead issuer gave a token")
	}
}

// TestAWSStartsNoProgram refuses profiles with credential_process, also behind another
// profile, and does not run it.
func TestAWSStartsNoProgram(t *testing.T) {
	newAmazon(t)
	ran := filepath.Join(t.TempDir(), "ran")
	writeFile(t, os.Getenv("AWS_CONFIG_FILE"), "[default]\ncredential_process = touch "+ran+"\n[profile models]\nrole_arn = arn:aws:iam::123456789012:role/m\nsource_profile = default\n[profile fine]\nregion = x\n")
	for _, profile := range []string{"", "models"} {
		a := &provider.AWS{Profile: profile}
		for _, err := range []error{Check(a), func() error { _, _, err := signed(t, a); return err }()} {
			if err == nil || !strings.Contains(err.Error(), `"default" has credential_process, which the gateway does not run; use a role`) {
				t.Errorf("profile %q: %v", profile, err)
			}
		}
	}
	if err := Check(&provider.AWS{Profile: "fine"}); err != nil {
		t.Error(err)
	}
	if err := Check(&provider.AWS{Profile: "absent"}); err == nil || !strings.Contains(err.Error(), `the profile "absent" is not in `) {
		t.Error(err)
	}
	// A profile that gets a program after the check: the SDK is set up not to start it.
	v := &awsVendor{&provider.AWS{Region: "eu-central-1"}}
	if _, err := loadAWS(t, v); err == nil {
		t.Error("a program gave a credential")
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the program was started")
	}
}

// loadAWS gets a credential without the check.
func loadAWS(t *testing.T, v *awsVendor) (aws.Credentials, error) {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(t.Context(), v.options(http.DefaultClient)...)
	if err != nil {
		return aws.Credentials{}, err
	}
	return cfg.Credentials.Retrieve(t.Context())
}

// TestSignedParts checks what a signature covers: the final query and headers, without those
// that are not sent or that change on the way. A second signature replaces the first.
func TestSignedParts(t *testing.T) {
	keys := aws.Credentials{AccessKeyID: "AKIA", SecretAccessKey: "secret", SessionToken: "session"}
	for query, wrong := range map[string]bool{"": false, "b=%C3%BC&a=x%20y": false, "a=x%20y&a=%7B": true, "alt=sse": false, "~=1&%C3%BC=2": true, "a=~&a=%C3%BC": true} {
		req := newSignable(t)
		req.URL.Host += ":443"
		req.URL.RawQuery = query
		req.Header = http.Header{"X-Idempotency-Key": {}, "Traceparent": {"00-1"}, "X-A": {"1", "2"}, "X-Amz-Security-Token": {"old"}}
		err := newSigner(keys, "eu-central-1", "bedrock")(time.Now(), req, []byte("{}"))
		if (err != nil) != wrong {
			t.Errorf("%q: %v", query, err)
		}
		if err != nil {
			continue
		}
		if got := req.Header.Get("Authorization"); !strings.Contains(got, "SignedHeaders=content-length;host;x-a;x-amz-date;x-amz-security-token,") {
			t.Error(got)
		}
		if req.Host != "bedrock-runtime.eu-central-1.amazonaws.com" || req.Header.Get("X-Amz-Security-Token") != "session" {
			t.Error(req.Host, req.Header)
		}
		keys.SessionToken = ""
		if err := newSigner(keys, "eu-central-1", "bedrock")(time.Now(), req, nil); err != nil || len(req.Header["X-Amz-Security-Token"]) > 0 || len(req.Header["Authorization"]) != 1 {
			t.Error(err, req.Header)
		}
		keys.SessionToken = "session"
	}
}

func BenchmarkSigV4(b *testing.B) {
	for _, size := range []int{0, 2 << 10, 200 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			keys := aws.Credentials{AccessKeyID: "ASIAIOSFODNN7EXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG", SessionToken: strings.Repeat("s", 800)}
			sign, body := newSigner(keys, "eu-central-1", "bedrock"), make([]byte, size)
			u, err := url.Parse("https://bedrock-runtime.eu-central-1.amazonaws.com/openai/v1/chat/completions")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				req := &http.Request{Method: http.MethodPost, URL: u, Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"*/*"}, "User-Agent": {"isogloss"}}}
				if err := sign(time.Now(), req, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSHA256 is the part of BenchmarkSigV4 that is the hash of the body.
func BenchmarkSHA256(b *testing.B) {
	body := make([]byte, 200<<10)
	for b.Loop() {
		sha256.Sum256(body)
	}
}

// BenchmarkToken signs with a token that is valid.
func BenchmarkToken(b *testing.B) {
	path := filepath.Join(b.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		b.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		b.Fatal(err)
	}
	for name, i := range map[string]*issuer{"issued": {life: time.Hour}, "issued_for_file": {life: time.Hour, paths: []string{path}}, "keys_in_file": {paths: []string{path}}} {
		b.Run(name, func(b *testing.B) {
			c := newCredential(i, nil, slog.New(slog.DiscardHandler))
			c.start()
			defer c.Close()
			authorization := []string{"Bearer x"}
			if err := c.Sign(b.Context(), newRequest(), nil); err != nil {
				b.Fatal(err)
			}
			c.current.Load().sign = func(_ time.Time, req *http.Request, _ []byte) error {
				req.Header["Authorization"] = authorization
				return nil
			}
			req := newRequest()
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Sign(b.Context(), req, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
