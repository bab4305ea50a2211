package provider

import (
	"regexp"
	"strings"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// CloudName is one of the clouds.
type CloudName string

// The clouds.
const (
	AWSCloud    CloudName = "aws"
	GoogleCloud CloudName = "google"
	AzureCloud  CloudName = "azure"
)

// hostsOf maps the ends of host names to clouds.
var hostsOf = []struct {
	end   string
	cloud CloudName
}{
	{".amazonaws.com", AWSCloud}, {".amazonaws.com.cn", AWSCloud}, {".api.aws", AWSCloud},
	{"aiplatform.googleapis.com", GoogleCloud}, {".rep.googleapis.com", GoogleCloud},
	{".azure.com", AzureCloud}, {".azure.us", AzureCloud}, {".azure.cn", AzureCloud}, {".azure-api.net", AzureCloud}, {".api.cognitive.microsoft.com", AzureCloud},
}

// envelopesOf maps envelopes to clouds.
var envelopesOf = map[string]CloudName{"bedrock": AWSCloud, "vertex": GoogleCloud}

// CloudName returns the cloud that serves the provider, or "": by the kind of its credential,
// its preset, its envelope, its host or its protocol.
func (p *Provider) CloudName() CloudName {
	if p.redactor != nil {
		return p.cloud
	}
	return p.findCloud()
}

func (p *Provider) findCloud() CloudName {
	switch p.Auth {
	case AWSAuth:
		return AWSCloud
	case GoogleAuth:
		return GoogleCloud
	case AzureAuth:
		return AzureCloud
	}
	if preset, ok := Lookup(p.Preset); ok && preset.Cloud != "" {
		return preset.Cloud
	}
	if cloud := envelopesOf[p.Envelope]; cloud != "" {
		return cloud
	}
	if p.BaseURL != nil {
		for _, h := range hostsOf {
			if strings.HasSuffix(p.BaseURL.Hostname(), h.end) {
				return h.cloud
			}
		}
	}
	if p.Protocol == protocol.Converse {
		return AWSCloud
	}
	return ""
}

// namePatterns match what errors of clouds tell about the operator: accounts, resources,
// projects, subscriptions, identities and machines.
var namePatterns = map[CloudName]string{
	AWSCloud: `\barn:aws[a-z-]*:[^\s"'(),;<>\\]*` + // of any resource
		`|\b[0-9]{12}\b` + // an account
		`|\b(?:AKIA|ASIA|AIDA|AROA|AIPA|ANPA|ANVA|ABIA|ACCA|AGPA)[A-Z0-9]{12,}\b` + // an identity
		`|\b(?:i|vpc|vpce|subnet|sg|eni)-[0-9a-f]{8,17}\b` +
		`|\bip(?:-[0-9]{1,3}){4}\b(?:\.[a-z0-9-]+)*`,
	GoogleCloud: "\\b(?:projects|instances|organizations|folders)/[^\\s/\"'`:,;()<>\\\\]+" +
		`|\b[pP]roject(?:[_ ](?:number|id))?[^a-zA-Z0-9]{1,3}[0-9]{6,}\b` +
		`|[\w.-]+@[\w.-]+\.gserviceaccount\.com` +
		`|\bprincipal(?:Set)?://[^\s"'<>\\]+`,
	AzureCloud: `(?i)\b(request[ _-]?id[^a-z0-9]{1,3}` + guid + `)` + // helps the vendor to find the request
		`|/?\bsubscriptions/[^\s"',;()<>\\]+` +
		`|\b` + guid + `\b` + // a subscription, tenant or principal
		`|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:azure\.(?:com|us|cn)|azure-api\.net|api\.cognitive\.microsoft\.com)\b`,
}

const guid = `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`

// names returns the pattern of names that clients must not see, or nil. The names of the
// configuration are among them.
func (p *Provider) names() *regexp.Regexp {
	cloud := p.CloudName()
	if cloud == "" {
		return nil
	}
	pattern := namePatterns[cloud]
	own := []string{p.Project}
	if p.BaseURL != nil && cloud == AzureCloud {
		resource, _, _ := strings.Cut(p.BaseURL.Hostname(), ".")
		own = append(own, resource)
	}
	for _, name := range own {
		if len(name) >= minName {
			pattern += `|\b` + regexp.QuoteMeta(name) + `\b`
		}
	}
	return regexp.MustCompile(pattern)
}

// minName is the length of the shortest name of the configuration that is removed. A shorter
// one may be a word of many texts.
const minName = 6
