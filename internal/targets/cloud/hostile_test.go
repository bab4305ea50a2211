package cloud

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/hostile"
)

// hostileSource is a source of credentials with a server that is not honest.
type hostileSource struct {
	honest  string
	prepare func(t *testing.T, at string) vendor
	behind  func(r *http.Request) string // answers that are honest before the one that is not; "": none
}

func hostileSources() map[string]hostileSource {
	hour := time.Now().Add(time.Hour).UTC()
	container := `{"AccessKeyId":"ASIA","SecretAccessKey":"secret-of-test","Token":"token-of-test","Expiration":"` + hour.Format(time.RFC3339) + `","Code":"Success"}`
	google := `{"access_token":"token-of-google","expires_in":3600,"token_type":"Bearer"}`
	none := func(*http.Request) string { return "" }
	return map[string]hostileSource{
		"container": {container, func(t *testing.T, at string) vendor {
			path := filepath.Join(t.TempDir(), "token")
			writeFile(t, path, "pod-token")
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", at+"/v1/credentials")
			t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path)
			return &awsVendor{&provider.AWS{Region: "eu-central-1", Service: "bedrock"}}
		}, none},
		"instance": {container, func(*testing.T, string) vendor {
			return &awsVendor{&provider.AWS{Region: "eu-central-1", Service: "bedrock"}}
		}, func(r *http.Request) string {
			return map[bool]string{true: "role-of-instance"}[strings.HasSuffix(r.URL.Path, "/security-credentials/")] + map[bool]string{true: "imds-token"}[r.Method == http.MethodPut]
		}},
		"SSO": {`{"roleCredentials":{"accessKeyId":"ASIASSO","secretAccessKey":"secret-of-test","sessionToken":"session-of-test","expiration":` + strconv.FormatInt(hour.UnixMilli(), 10) + `}}`, func(t *testing.T, at string) vendor {
			t.Setenv("AWS_ENDPOINT_URL_SSO", at)
			writeFile(t, os.Getenv("AWS_CONFIG_FILE"), "[profile models]\nsso_session = s\nsso_account_id = 123456789012\nsso_role_name = m\n[sso-session s]\nsso_region = eu-central-1\nsso_start_url = https://example.awsapps.com/start\n")
			const sha1OfName = "a0f1490a20d0211c997b44bc357e1972deab8ae3"
			writeFile(t, filepath.Join(os.Getenv("HOME"), ".aws/sso/cache", sha1OfName+".json"), `{"accessToken":"sso-token","expiresAt":"`+hour.Format(time.RFC3339)+`"}`)
			return &awsVendor{&provider.AWS{Region: "eu-central-1", Service: "bedrock", Profile: "models"}}
		}, none},
		"STS": {container, func(t *testing.T, at string) vendor { // which answers in XML
			t.Setenv("AWS_ENDPOINT_URL_STS", at)
			path := filepath.Join(t.TempDir(), "token")
			writeFile(t, path, "jwt-of-the-pod")
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path)
			t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod")
			return &awsVendor{&provider.AWS{Region: "eu-central-1", Service: "bedrock"}}
		}, none},
		"google": {google, func(*testing.T, string) vendor { return &googleVendor{&provider.Google{}} }, none},
		"google account": {`{"accessToken":"token-of-account","expireTime":"` + hour.Format(time.RFC3339) + `"}`, func(*testing.T, string) vendor {
			return &googleVendor{&provider.Google{Impersonate: "a@p.iam.gserviceaccount.com"}}
		}, func(r *http.Request) string {
			return map[bool]string{true: google}[!strings.HasSuffix(r.URL.Path, ":generateAccessToken")]
		}},
		"azure": {`{"access_token":"token-of-azure","expires_in":"3600","expires_on":"` + strconv.FormatInt(hour.Unix(), 10) + `","resource":"r","token_type":"Bearer"}`,
			func(*testing.T, string) vendor { return &azureVendor{&provider.Azure{Scope: "s/.default"}} }, none},
	}
}

// TestHostileIssuers gets credentials from servers that answer anything: the process lives, little is
// read, and nothing goes elsewhere.
func TestHostileIssuers(t *testing.T) {
	tried := 0
	for name, source := range hostileSources() {
		t.Run(name, func(t *testing.T) {
			var current atomic.Pointer[hostile.Server] // of the present answer; the libraries try again later
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Metadata-Flavor", "Google")
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
				if text := source.behind(r); text != "" {
					_, _ = w.Write([]byte(text))
					return
				}
				h := current.Load()
				h.ServeHTTP(w, r)
				if strings.HasPrefix(h.Answer.Name, "endless") || strings.HasPrefix(h.Answer.Name, "cut by") { // some libraries try again for long
					h.Stuck <- struct{}{}
				}
			}))
			defer server.Close()
			defer server.CloseClientConnections() // the AWS SDK fetches on for a while
			v, client := hostileVendor(t, server.URL, source), hostileClient(t, server.URL)
			answers := func(elsewhere string) []hostile.Answer { return hostile.Answers(source.honest, elsewhere) }
			tried += hostile.Try(t, answers, func(ctx context.Context, h *hostile.Server) {
				current.Store(h)
				tryHostile(ctx, t, v, client, h)
			})
		})
	}
	if tried < 300 {
		t.Errorf("%d answers", tried)
	}
}

func hostileVendor(t *testing.T, at string, source hostileSource) vendor {
	t.Helper()
	newAmazon(t) // sets the environment
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", at)
	for _, variable := range []string{"GOOGLE_APPLICATION_CREDENTIALS", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "IDENTITY_ENDPOINT", "MSI_ENDPOINT", "IMDS_ENDPOINT"} {
		t.Setenv(variable, "")
	}
	return source.prepare(t, at)
}

func hostileClient(t *testing.T, at string) *http.Client {
	t.Helper()
	to, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	base := newTransport()
	t.Cleanup(base.CloseIdleConnections)
	return newClientOf(&divert{to, base})
}

// tryHostile gets a credential once and signs a request with it. A token that was issued has an end
// that is to come.
func tryHostile(ctx context.Context, t *testing.T, v vendor, client *http.Client, h *hostile.Server) {
	t.Helper()
	c := newCredential(v, client, slog.New(slog.DiscardHandler))
	c.start()
	err := c.Sign(ctx, &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "api.example.com", Path: "/"}, Header: http.Header{}}, nil)
	c.Close()
	made := c.current.Load()
	if err == nil && !made.valid(time.Now()) {
		t.Errorf("%s: a token that ends at %s was used", h.Answer.Name, made.expires)
	}
	if err == nil && slices.Contains(made.secrets, "") {
		t.Errorf("%s: an empty secret was used", h.Answer.Name)
	}
}

// ended issues tokens whose ends a test sets.
type ended struct {
	issuer
	life atomic.Int64 // a time.Duration
}

func (e *ended) fetch(ctx context.Context, client *http.Client) (*token, error) {
	t, err := e.issuer.fetch(ctx, client)
	if err == nil {
		t.expires = time.Now().Add(time.Duration(e.life.Load()))
	}
	return t, err
}

// TestEndedToken refuses tokens that have ended when they arrive, at the start and at a renewal. A
// token that is still valid serves on.
func TestEndedToken(t *testing.T) {
	for _, life := range []time.Duration{0, -time.Second, -time.Hour, -1 << 62} {
		synctest.Test(t, func(t *testing.T) {
			v := &ended{}
			v.life.Store(int64(life))
			c := newCredential(v, nil, slog.New(slog.DiscardHandler))
			c.start()
			if _, _, err := sign(t, c); err == nil || !strings.Contains(err.Error(), "ended at") {
				t.Errorf("life %s: %v", life, err)
			}
			v.life.Store(int64(time.Hour))
			time.Sleep(time.Minute)
			if _, _, err := sign(t, c); err != nil {
				t.Error(err)
			}
			v.life.Store(int64(life))
			time.Sleep(58 * time.Minute)
			if _, _, err := sign(t, c); err != nil {
				t.Errorf("life %s at the renewal: %v", life, err)
			}
			c.Close()
		})
	}
}

// TestLongLife believes no life that overflows.
func TestLongLife(t *testing.T) {
	for _, life := range []int64{1 << 62, 1<<63 - 1, 9223372036, 86400} {
		text, err := json.Marshal(map[string]any{"access_token": "t", "expires_in": life})
		if err != nil {
			t.Fatal(err)
		}
		if _, expires, err := readToken(text); err != nil || time.Until(expires) > 25*time.Hour || time.Until(expires) < 23*time.Hour {
			t.Errorf("%d: %s, %v", life, expires, err)
		}
	}
}
