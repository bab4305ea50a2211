package config

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// Defaults of the clouds.
const (
	googleScope = "https://www.googleapis.com/auth/cloud-platform"
	azureScope  = "https://cognitiveservices.azure.com/.default"
	awsSession  = "isogloss"
)

// resolveCloud sets the source of the provider's credential, if auth names a cloud. An API key
// of Bedrock is a bearer token.
func (f *providerFile) resolveCloud(p *provider.Provider, outside outside, ps *Problems) {
	for key, auth := range map[string]provider.Auth{"aws": provider.AWSAuth, "google": provider.GoogleAuth, "azure": provider.AzureAuth} {
		if f.has(key) && p.Auth != auth {
			ps.addKey(&f.at, key, "needs \"auth: %s\"; write it, or remove %s", auth, key)
		}
	}
	if !p.Auth.Cloud() {
		return
	}
	if p.Auth == provider.AWSAuth && p.Key != "" {
		if f.has("aws") {
			ps.addKey(&f.at, "aws", "is not used with api_key, which is sent as a bearer token; remove one of them")
		}
		p.Auth = provider.Bearer
		return
	}
	if p.Key != "" {
		ps.addKey(&f.at, "api_key", "is never sent, because auth is %s; remove it, or write \"auth: %s\"", p.Auth, map[provider.Auth]provider.Auth{provider.GoogleAuth: provider.XGoogKey, provider.AzureAuth: provider.APIKey}[p.Auth])
	}
	if p.BaseURL.Scheme == "http" && !isPrivate(p.BaseURL.Hostname()) {
		ps.addKey(&f.at, "base_url", "would send the credential unencrypted over a public network; write https://")
	}
	switch p.Auth {
	case provider.AWSAuth:
		p.Cloud = f.aws(p, outside, ps)
	case provider.GoogleAuth:
		p.Cloud = f.google(outside, ps)
	default:
		p.Cloud = f.azure(outside, ps)
	}
}

// outside is what a configuration depends on beside the file's text.
type outside struct {
	dir string // of the file
	env func(string) (string, bool)
}

func (f *providerFile) aws(p *provider.Provider, outside outside, ps *Problems) *provider.AWS {
	a := &provider.AWS{Region: f.Region, Service: f.AWS.Service, Profile: f.AWS.Profile}
	host := p.BaseURL.Hostname()
	if match := regexp.MustCompile(`^[a-z0-9-]+\.([a-z]{2,}(?:-[a-z]+)+-\d+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)$`).FindStringSubmatch(host); match != nil && a.Region == "" {
		a.Region = match[1]
	}
	if a.Region == "" {
		a.Region, _ = outside.env("AWS_REGION")
	}
	switch {
	case a.Region == "":
		ps.addKey(&f.at, "region", "is required for auth aws, because neither base_url nor AWS_REGION has one; write one such as \"eu-central-1\"")
	case f.Region == "" && !regexp.MustCompile(`^[a-z0-9-]{2,32}$`).MatchString(a.Region):
		ps.addKey(&f.at, "region", "is not set, and AWS_REGION is not a region; write one such as \"eu-central-1\"")
	}
	if a.Service == "" {
		a.Service = "bedrock"
		if strings.HasPrefix(host, "bedrock-mantle.") {
			a.Service = "bedrock-mantle"
		}
	}
	if at := p.BaseURL.Path; at != "" && path.Clean(at) != strings.TrimSuffix(at, "/") && at != "/" {
		ps.addKey(&f.at, "base_url", "has a path that a signature cannot cover; write it without \"..\" and double slashes")
	}
	if len(f.Paths) > 0 {
		ps.addKey(&f.at, "paths", "cannot be used with auth aws: a signature covers the whole body, and the bodies of these paths are not held; remove it")
	}
	for i := range f.AWS.Roles {
		a.Roles = append(a.Roles, f.AWS.Roles[i].resolve(ps))
	}
	return a
}

func (f *awsRoleFile) resolve(ps *Problems) provider.Role {
	r := provider.Role{ARN: f.ARN, ExternalID: f.ExternalID, Session: or(f.Session, awsSession), Transitive: f.TransitiveTags, Duration: time.Duration(f.Duration)}
	if !regexp.MustCompile(`^arn:[a-z-]+:iam::\d{12}:role/.+$`).MatchString(f.ARN) {
		ps.addKey(&f.at, "arn", "is not the ARN of a role; write one such as arn:aws:iam::123456789012:role/models")
	}
	if !regexp.MustCompile(`^[\w+=,.@-]{2,64}$`).MatchString(r.Session) {
		ps.addKey(&f.at, "session", "%q is not the name of a session; write 2 to 64 letters, digits and \"+=,.@-_\"", f.node.writtenAt("session", ""))
	}
	if r.Duration != 0 && (r.Duration < 15*time.Minute || r.Duration > 12*time.Hour) {
		ps.addKey(&f.at, "duration", "is outside of what AWS allows; write a duration from 15m to 12h")
	}
	for _, key := range f.TransitiveTags {
		if _, ok := f.Tags[key]; !ok {
			ps.addKey(&f.at, "transitive_tags", "names a tag that tags does not have; write it there, or remove it")
		}
	}
	for key, value := range f.Tags {
		r.Tags = append(r.Tags, provider.Tag{Key: key, Value: value})
	}
	slices.SortFunc(r.Tags, func(a, b provider.Tag) int { return strings.Compare(a.Key, b.Key) })
	return r
}

func (f *providerFile) google(outside outside, ps *Problems) *provider.Google {
	g := &provider.Google{File: relativeTo(outside.dir, f.Google.Credentials), Impersonate: f.Google.Impersonate, Delegates: f.Google.Delegates, Scopes: f.Google.Scopes, QuotaProject: f.Google.QuotaProject}
	if len(g.Scopes) == 0 {
		g.Scopes = []string{googleScope}
	}
	if g.Impersonate != "" && !strings.Contains(g.Impersonate, "@") {
		ps.addKey(&f.Google.at, "impersonate", "%q is not a service account; write its e-mail address", f.Google.node.writtenAt("impersonate", ""))
	}
	if len(g.Delegates) > 0 && g.Impersonate == "" {
		ps.addKey(&f.Google.at, "delegates", "needs impersonate; write the service account at the end of the chain there")
	}
	if strings.ContainsFunc(g.QuotaProject, notInHeader) {
		ps.addKey(&f.Google.at, "quota_project", "holds a character that a header cannot carry; write the project's id")
	}
	return g
}

func (f *providerFile) azure(outside outside, ps *Problems) *provider.Azure {
	z := &f.Azure
	a := &provider.Azure{Tenant: z.Tenant, Client: z.Client, Certificate: relativeTo(outside.dir, z.Certificate), Password: z.CertificatePassword, Scope: or(z.Scope, azureScope), Authority: z.Authority}
	if z.ClientSecret != "" {
		a.Secret = secret.NewFile(z.node.child("client_secret").referencedFile(outside.dir), z.ClientSecret, func(secret.String) bool { return true })
	}
	switch {
	case a.Secret != nil && a.Certificate != "":
		ps.addKey(&z.at, "certificate", "is set together with client_secret; keep one")
	case a.Secret != nil || a.Certificate != "":
		if a.Tenant == "" {
			ps.addKey(&z.at, "tenant", "is required with client_secret and certificate; write the id of the tenant")
		}
		if a.Client == "" {
			ps.addKey(&z.at, "client", "is required with client_secret and certificate; write the application's id")
		}
	}
	if a.Password != "" && a.Certificate == "" {
		ps.addKey(&z.at, "certificate_password", "needs certificate; write the file's path there")
	}
	if u, err := url.Parse(a.Authority); a.Authority != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		ps.addKey(&z.at, "authority", "%q is not an https URL; write one such as https://login.microsoftonline.us/", z.node.writtenAt("authority", ""))
	}
	return a
}

// fileKey makes the key of a provider follow the file that api_key names.
func (f *providerFile) fileKey(p *provider.Provider, outside outside) {
	path := f.node.child("api_key").referencedFile(outside.dir)
	if path == "" || p.Key == "" || p.Auth.Header() == "" {
		return
	}
	valid := func(s secret.String) bool { return !strings.ContainsFunc(s.Reveal(), notInHeader) }
	p.Credential = provider.NewFileKey(p.Auth, secret.NewFile(path, p.Key, valid))
}
