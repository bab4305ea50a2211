package provider

import (
	"net/url"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// TestNames removes the names of the operator's account from errors of clouds, in every form,
// and leaves the rest.
func TestNames(t *testing.T) {
	aws := &Provider{Preset: "bedrock"}
	google := &Provider{Preset: "vertex", Project: "my-project-77"}
	azure := &Provider{Preset: "azure", BaseURL: mustURL(t, "https://my-resource-7.openai.azure.com/openai/v1")}
	for _, c := range []struct {
		p          *Provider
		text, want string
	}{
		{aws, "Input is too long.", "Input is too long."},
		{aws, "User: arn:aws:sts::123456789012:assumed-role/r/i-0abc123def456789a is not authorized", "User: … is not authorized"},
		{aws, `{"message":"arn:aws-us-gov:bedrock:us-gov-west-1:123456789012:inference-profile\/x is gone"}`, `{"message":"… is gone"}`},
		{aws, "path /model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aprovisioned-model%2Fx/invoke", "path /model/…"},
		{aws, "Account 123456789012 of AROAEXAMPLEID12345:i-0abc123def456789a on ip-10-0-0-7.ec2.internal", "Account … of …:… on …"},
		{aws, "max_tokens 128000 of claude-sonnet-4-5-20250929-v1:0", "max_tokens 128000 of claude-sonnet-4-5-20250929-v1:0"},
		{google, "Quota exceeded for projects/p-1/x", "Quota exceeded for …/x"},
		{google, `"consumer":"projects\/998877665544"`, `"consumer":"…"`},
		{google, "Project my-project-77 has no access to projects/-", "Project … has no access to …"},
		{google, "project_number:998877665544, project number 998877, Project #998877", "…, …, …"},
		{google, "a@b-1.iam.gserviceaccount.com lacks aiplatform.endpoints.predict", "… lacks aiplatform.endpoints.predict"},
		{google, "zones/z/instances/vm-7", "zones/z/…"},
		{azure, "of /subscriptions/0f1e2d3c-aaaa-bbbb-cccc-1234567890ab/resourceGroups/rg/providers/x/accounts/y, wait", "of …, wait"},
		{azure, "The principal `0F1E2D3C-aaaa-bbbb-cccc-1234567890ab` lacks the data action", "The principal `…` lacks the data action"},
		{azure, "(Request ID: 0f1e2d3c-aaaa-bbbb-cccc-1234567890ab)", "(Request ID: 0f1e2d3c-aaaa-bbbb-cccc-1234567890ab)"},
		{azure, "https://my-resource-7.openai.azure.com/openai or my-resource-7", "https://…/openai or …"},
		{&Provider{Preset: "openai"}, "arn:aws:iam::123456789012:x", "arn:aws:iam::123456789012:x"},
	} {
		if got := string(c.p.Redactor().Redact([]byte(c.text))); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.text, got, c.want)
		}
	}
}

// TestNamesAndSecrets removes both, with the secrets of a credential.
func TestNamesAndSecrets(t *testing.T) {
	p := &Provider{Preset: "bedrock", Key: "the-secret-key"}
	p.Bind(nil)
	if got := string(p.Redactor().Redact([]byte("key the-secret-key of 123456789012"))); got != "key *** of …" {
		t.Error(got)
	}
	if p.Redactor().Contains("123456789012") {
		t.Error("a name counts as a secret")
	}
}

func TestCloudName(t *testing.T) {
	for want, list := range map[CloudName][]*Provider{
		AWSCloud:    {{Auth: AWSAuth}, {Preset: "bedrock-openai"}, {Protocol: protocol.Converse}, {BaseURL: mustURL(t, "https://bedrock-mantle.eu-west-1.api.aws/v1")}, {Envelope: "bedrock"}},
		GoogleCloud: {{Auth: GoogleAuth}, {Preset: "vertex"}, {BaseURL: mustURL(t, "https://us-east5-aiplatform.googleapis.com/v1")}, {BaseURL: mustURL(t, "https://aiplatform.eu.rep.googleapis.com/v1")}},
		AzureCloud:  {{Auth: AzureAuth}, {Preset: "azure-anthropic"}, {BaseURL: mustURL(t, "https://r.services.ai.azure.com/anthropic")}},
		"":          {{Preset: "openai"}, {BaseURL: mustURL(t, "http://127.0.0.1:1")}, {BaseURL: mustURL(t, "https://api.aws.example")}},
	} {
		for _, p := range list {
			if got := p.CloudName(); got != want {
				t.Errorf("%+v: %q, want %q", p, got, want)
			}
		}
	}
	for _, preset := range Catalog() {
		if cloud := strings.HasPrefix(preset.Name, "bedrock") || strings.HasPrefix(preset.Name, "vertex") || strings.HasPrefix(preset.Name, "azure"); cloud != (preset.Cloud != "") {
			t.Errorf("%s: cloud %q", preset.Name, preset.Cloud)
		}
	}
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
