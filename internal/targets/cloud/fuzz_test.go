package cloud

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// reply answers every request of a client with one text.
type reply struct {
	text   string
	behind func(r *http.Request) string
}

func (i reply) RoundTrip(r *http.Request) (*http.Response, error) {
	text := i.text
	if first := i.behind(r); first != "" {
		text = first
	}
	header := http.Header{"Content-Type": {"application/json"}, "Metadata-Flavor": {"Google"}, "X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"21600"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// FuzzIssuer reads any text as the answer of metadata and token servers. A token that comes of it has an
// end that is to come, and signs a request.
func FuzzIssuer(f *testing.F) {
	for name, variable := range map[string]string{"AWS_EC2_METADATA_DISABLED": "false", "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_ACCESS_KEY_ID": "", "HOME": f.TempDir(),
		"GOOGLE_APPLICATION_CREDENTIALS": "", "AZURE_FEDERATED_TOKEN_FILE": "", "AZURE_AUTHORITY_HOST": "", "IDENTITY_ENDPOINT": "", "MSI_ENDPOINT": "", "IMDS_ENDPOINT": ""} {
		f.Setenv(name, variable)
	}
	sources := hostileSources()
	for _, s := range sources {
		f.Add(s.honest)
	}
	f.Add("null")
	vendors := map[string]vendor{"instance": &awsVendor{&provider.AWS{Region: "eu-central-1", Service: "bedrock"}}, "google": &googleVendor{&provider.Google{}},
		"google account": &googleVendor{&provider.Google{Impersonate: "a@p.iam.gserviceaccount.com"}}, "azure": &azureVendor{&provider.Azure{Scope: "s/.default"}}}
	f.Fuzz(func(t *testing.T, text string) {
		for name, v := range vendors {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // libraries try some answers again
			c := newCredential(v, newClientOf(reply{text, sources[name].behind}), slog.New(slog.DiscardHandler))
			made, err := c.ask(ctx)
			cancel()
			if err != nil || !made.valid(time.Now()) {
				continue
			}
			if made.local() {
				t.Errorf("%s: a token without an end", name)
			}
			_ = made.sign(time.Now(), &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "api.example.com", Path: "/"}, Header: http.Header{}}, nil)
		}
	})
}
