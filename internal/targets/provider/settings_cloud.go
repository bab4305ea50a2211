package provider

import (
	"cmp"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// Defaults of the clouds.
const (
	googleScope = "https://www.googleapis.com/auth/cloud-platform"
	azureScope  = "https://cognitiveservices.azure.com/.default"
	awsSession  = "isogloss"
)

// resolveCloud sets the source of the provider's credential, if auth names a cloud. An API key
// of Bedrock is a bearer token.
func (f *Settings) resolveCloud(p *Provider) {
	for key, auth := range map[string]Auth{"aws": AWSAuth, "google": GoogleAuth, "azure": AzureAuth} {
		if f.Has(key) && p.Auth != auth {
			f.Wrong(key, "needs \"auth: %s\"; write it, or remove %s", auth, key)
		}
	}
	if !p.Auth.Cloud() {
		return
	}
	if p.Auth == AWSAuth && p.Key != "" {
		if f.Has("aws") {
			f.Wrong("aws", "is not used with api_key, which is sent as a bearer token; remove one of them")
		}
		p.Auth = Bearer
		return
	}
	if p.Key != "" {
		f.Wrong("api_key", "is never sent, because auth is %s; remove it, or write \"auth: %s\"", p.Auth, map[Auth]Auth{GoogleAuth: XGoogKey, AzureAuth: APIKey}[p.Auth])
	}
	if p.BaseURL.Scheme == "http" && !isPrivate(p.BaseURL.Hostname()) {
		f.Wrong("base_url", "would send the credential unencrypted over a public network; write https://")
	}
	switch p.Auth {
	case AWSAuth:
		p.Cloud = f.aws(p)
	case GoogleAuth:
		p.Cloud = f.google()
	default:
		p.Cloud = f.azure()
	}
}

func (f *Settings) aws(p *Provider) *AWS {
	a := &AWS{Region: f.Region, Service: f.AWS.Service, Profile: f.AWS.Profile}
	host := p.BaseURL.Hostname()
	if match := regexp.MustCompile(`^[a-z0-9-]+\.([a-z]{2,}(?:-[a-z]+)+-\d+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)$`).FindStringSubmatch(host); match != nil && a.Region == "" {
		a.Region = match[1]
	}
	if a.Region == "" {
		a.Region, _ = f.Env("AWS_REGION")
	}
	switch {
	case a.Region == "":
		f.Wrong("region", "is required for auth aws, because neither base_url nor AWS_REGION has one; write one such as \"eu-central-1\"")
	case f.Region == "" && !regexp.MustCompile(`^[a-z0-9-]{2,32}$`).MatchString(a.Region):
		f.Wrong("region", "is not set, and AWS_REGION is not a region; write one such as \"eu-central-1\"")
	}
	if a.Service == "" {
		a.Service = "bedrock"
		if strings.HasPrefix(host, "bedrock-mantle.") {
			a.Service = "bedrock-mantle"
		}
	}
	if at := p.BaseURL.Path; at != "" && path.Clean(at) != strings.TrimSuffix(at, "/") && at != "/" {
		f.Wrong("base_url", "has a path that a signature cannot cover; write it without \"..\" and double slashes")
	}
	if len(f.Paths) > 0 {
		f.Wrong("paths", "cannot be used with auth aws: a signature covers the whole body, and the bodies of these paths are not held; remove it")
	}
	for i := range f.AWS.Roles {
		a.Roles = append(a.Roles, f.AWS.Roles[i].resolve())
	}
	return a
}

func (f *awsRoleSettings) resolve() Role {
	r := Role{ARN: f.ARN, ExternalID: f.ExternalID, Session: cmp.Or(f.Session, awsSession), Transitive: f.TransitiveTags, Duration: f.Duration}
	if !regexp.MustCompile(`^arn:[a-z-]+:iam::\d{12}:role/.+$`).MatchString(f.ARN) {
		f.Wrong("arn", "is not the ARN of a role; write one such as arn:aws:iam::123456789012:role/models")
	}
	if !regexp.MustCompile(`^[\w+=,.@-]{2,64}$`).MatchString(r.Session) {
		f.Wrong("session", "%q is not the name of a session; write 2 to 64 letters, digits and \"+=,.@-_\"", f.Written("session", ""))
	}
	if r.Duration != 0 && (r.Duration < 15*time.Minute || r.Duration > 12*time.Hour) {
		f.Wrong("duration", "is outside of what AWS allows; write a duration from 15m to 12h")
	}
	for _, key := range f.TransitiveTags {
		if _, ok := f.Tags[key]; !ok {
			f.Wrong("transitive_tags", "names a tag that tags does not have; write it there, or remove it")
		}
	}
	for key, value := range f.Tags {
		r.Tags = append(r.Tags, Tag{Key: key, Value: value})
	}
	slices.SortFunc(r.Tags, func(a, b Tag) int { return strings.Compare(a.Key, b.Key) })
	return r
}

func (f *Settings) google() *Google {
	g := &Google{File: f.Path(f.Google.Credentials), Impersonate: f.Google.Impersonate, Delegates: f.Google.Delegates, Scopes: f.Google.Scopes, QuotaProject: f.Google.QuotaProject}
	if len(g.Scopes) == 0 {
		g.Scopes = []string{googleScope}
	}
	if g.Impersonate != "" && !strings.Contains(g.Impersonate, "@") {
		f.Google.Wrong("impersonate", "%q is not a service account; write its e-mail address", f.Google.Written("impersonate", ""))
	}
	if len(g.Delegates) > 0 && g.Impersonate == "" {
		f.Google.Wrong("delegates", "needs impersonate; write the service account at the end of the chain there")
	}
	if strings.ContainsFunc(g.QuotaProject, notInHeader) {
		f.Google.Wrong("quota_project", "holds a character that a header cannot carry; write the project's id")
	}
	return g
}

func (f *Settings) azure() *Azure {
	z := &f.Azure
	a := &Azure{Tenant: z.Tenant, Client: z.Client, Certificate: f.Path(z.Certificate), Password: z.CertificatePassword, Scope: cmp.Or(z.Scope, azureScope), Authority: z.Authority}
	if z.ClientSecret != "" {
		a.Secret = secret.NewFile(z.ReferencedFile("client_secret"), z.ClientSecret, func(secret.String) bool { return true })
	}
	switch {
	case a.Secret != nil && a.Certificate != "":
		z.Wrong("certificate", "is set together with client_secret; keep one")
	case a.Secret != nil || a.Certificate != "":
		if a.Tenant == "" {
			z.Wrong("tenant", "is required with client_secret and certificate; write the id of the tenant")
		}
		if a.Client == "" {
			z.Wrong("client", "is required with client_secret and certificate; write the application's id")
		}
	}
	if a.Password != "" && a.Certificate == "" {
		z.Wrong("certificate_password", "needs certificate; write the file's path there")
	}
	if u, err := url.Parse(a.Authority); a.Authority != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		z.Wrong("authority", "%q is not an https URL; write one such as https://login.microsoftonline.us/", z.Written("authority", ""))
	}
	return a
}

// fileKey makes the key of a provider follow the file that api_key names.
func (f *Settings) fileKey(p *Provider) {
	path := f.ReferencedFile("api_key")
	if path == "" || p.Key == "" || p.Auth.Header() == "" {
		return
	}
	valid := func(s secret.String) bool { return !strings.ContainsFunc(s.Reveal(), notInHeader) }
	p.Credential = NewFileKey(p.Auth, secret.NewFile(path, p.Key, valid))
}
