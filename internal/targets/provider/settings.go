package provider

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Settings is one upstream. It needs `preset`, or `protocol` and `base_url`.
// Settings here override the preset.
type Settings struct {
	settings.At
	// A known vendor or engine. It sets protocol, address and quirks.
	Preset string `key:"preset" words:"presets" example:"openai"`
	// Protocol of the upstream. The default is the preset's.
	Protocol protocol.Name `key:"protocol" words:"protocols" example:"openai-chat"`
	// Base URL as the vendor's SDK takes it: with `/v1` for the two protocols of
	// OpenAI (added to a bare origin), the bare origin for anthropic and gemini. A
	// query is kept. `{model}` in the path is replaced by the target's model, as for
	// deployments of Azure. The default is the preset's.
	BaseURL string `key:"base_url" example:"http://127.0.0.1:8000/v1"`
	// Region of a cloud, or location of Google Cloud. For presets of clouds it is a part of
	// the host name, and on Vertex AI of the path. For `auth: aws` it is also the region of
	// the signature; there the default is the region in the host name of the base URL, or
	// the environment variable AWS_REGION.
	Region string `key:"region" example:"us-east5"`
	// Project of Google Cloud, for the presets of Vertex AI.
	Project string `key:"project" example:"my-project"`
	// Credential. Optional for auth none, aws, google and azure, for engines, and for
	// addresses in a private network. Written as `${FILE:path}`, the file is read again
	// when it changes.
	APIKey secret.String `key:"api_key" example:"${OPENAI_API_KEY}"`
	// Header of the credential, or the cloud that it comes from. The default is the
	// preset's or the protocol's. With aws, requests are signed with SigV4, or api_key is a
	// Bedrock API key; with google and azure they have a token of that cloud.
	Auth Auth `key:"auth" example:"bearer"`
	// Source of the credential for `auth: aws`.
	AWS awsSettings `key:"aws"`
	// Source of the credential for `auth: google`.
	Google googleSettings `key:"google"`
	// Source of the credential for `auth: azure`.
	Azure azureSettings `key:"azure"`
	// Version of the anthropic or gemini protocol to request. The default is the
	// protocol's own.
	APIVersion string `key:"api_version" example:"2023-06-01"`
	// Versions of the anthropic or gemini protocol that the upstream also accepts. A
	// client that requests one of them gets it. The default is every known version,
	// or only api_version if that is set, here or by the preset.
	AcceptedVersions []string `key:"accepted_versions" example:"[\"2023-06-01\"]"`
	// Forward requests that use an unknown version of the anthropic protocol without
	// reading them. The default is false: they are refused.
	ForwardUnknownVersion bool `key:"forward_unknown_version" example:"true"`
	// Headers added to every request.
	Headers map[string]string `key:"headers" secret:"values" example:"{X-Team: search}"`
	// Whether to stream from the upstream always or only if the client streams. With
	// always, the gateway assembles one body for a non-streaming client. The default
	// is always for engines and mirror for others. A request without an output limit is
	// streamed in any case if the caller has a budget.
	UpstreamStream StreamMode `key:"upstream_stream" example:"always"`
	// HTTP version towards the upstream. auto, the default, is what TLS negotiates, and
	// HTTP/1.1 without TLS. h1 is HTTP/1.1 in any case; h2c is HTTP/2 without TLS, for
	// engines that are known to speak it.
	HTTP HTTPVersion `key:"http" example:"h2c"`
	// Request token counts on streams even if the client did not. The default is
	// false. With a store they are always requested.
	IncludeUsage bool `key:"include_usage" example:"true"`
	// How to treat the member nvext of a request: forward it, drop and report it, or
	// refuse the request. The default is refuse, and forward for the preset dynamo.
	NvExt Extensions `key:"nvext" example:"forward"`
	// What to do with a request that names an id of something that the provider keeps,
	// such as a response or a file, if the gateway does not know whose it is. An id of
	// another organisation is always refused. The default is refuse if several
	// organisations have keys, and forward otherwise.
	UnknownIDs UnknownIDs `key:"unknown_ids" example:"forward"`
	// Salt of the engine's prefix cache, sent as cache_salt in place of the client's own:
	// tenant sends one for each organisation, or for each key of this file; shared does
	// so if several organisations have keys. The default is shared for the preset vllm,
	// and none for others.
	CacheSalt CacheSalt `key:"cache_salt" example:"tenant"`
	// Reasoning that the engine leaves in the text as `<think>…</think>`: none leaves it
	// there; start separates it from a text that begins with `<think>`; opened is for
	// prompt templates that end with `<think>`, so that every text begins with
	// reasoning. Requests to such a provider are always translated. The default is none.
	ThinkTags ThinkTags `key:"think_tags" example:"start"`
	// Format of `/v1/rerank` at this provider: same forwards the request unchanged;
	// cohere and jina translate it to that vendor's format. The default is same. The
	// base URL is `https://api.cohere.com` for Cohere and `https://api.jina.ai/v1`
	// for Jina.
	Rerank Rerank `key:"rerank" example:"cohere"`
	// Further requests to forward to this provider, each an exact method and path.
	Paths []string `key:"paths" example:"[\"POST /v1/audio/speech\"]"`
	// Time limits of a request to this provider.
	Timeouts Timeouts `key:"timeouts"`
	// Maximum number of open requests per model of this provider. The default is
	// overload.per_target.
	Concurrency int `key:"concurrency" minimum:"0" example:"64"`
	// Scope of this provider's rate limits: one model, or all models of the
	// credential. The default is model.
	Quota Quota `key:"quota" example:"provider"`
	// Active health check, made if a model has another target.
	Health healthSettings `key:"health"`
	// How to continue a stream that broke off, for models with continue: trailing
	// sends the delivered text as a last assistant message, vllm adds vLLM's
	// continue_final_message, prefix adds a prefix mark. The default is the
	// preset's, or none.
	Continuation Continuation `key:"continuation" example:"vllm"`
}

// healthSettings is an active health check.
type healthSettings struct {
	settings.At
	// Path of the GET request on the origin of the provider. A 2xx status means
	// healthy. The default is /health for engines and none for others.
	Path string `key:"path" example:"/health"`
	// Interval. The default is 5s.
	Every time.Duration `key:"every" example:"2s"`
}

// GateSettings is a rule about what certain models accept.
type GateSettings struct {
	settings.At
	// Upstream model names. `*` matches any text; case is ignored, and a dot equals
	// a dash.
	Match string `key:"match" example:"claude-x*"`
	// Protocol of the upstream.
	Protocol protocol.Name `key:"protocol" words:"protocols" example:"anthropic"`
	// Output limit to send if the protocol requires one and the client set none. The
	// default is the protocol's own.
	MaxOutput int `key:"max_output" example:"64000"`
	// Drop temperature, top_p and top_k. The default is false.
	NoSampling bool `key:"no_sampling" example:"true"`
	// Do not force a tool call. The default is false.
	NoForcedTool bool `key:"no_forced_tool" example:"true"`
	// Drop stop sequences. The default is false.
	NoStop bool `key:"no_stop" example:"true"`
	// Set reasoning by effort. The default is false.
	Adaptive bool `key:"adaptive" example:"true"`
	// Set reasoning by a number of tokens. The default is false.
	Budget bool `key:"budget" example:"true"`
	// Accepted levels of effort. The default is all.
	Efforts []string `key:"efforts" example:"[low, high]"`
	// Allow system messages inside a conversation. The default is false.
	MidSystem bool `key:"mid_system" example:"true"`
	// Replace the role developer by system. The default is false.
	SystemOnly bool `key:"system_only" example:"true"`
	// Name of the output limit, if the protocol has two names for it.
	MaxTokensName string `key:"max_tokens_name" example:"max_tokens"`
	// Member in which to send the reasoning of earlier responses. By default it is
	// not sent.
	ReasoningHistory string `key:"reasoning_history" example:"reasoning_content"`
}

// awsSettings is the source of the credential for `auth: aws`. The AWS SDK finds it:
// environment, web identity (IRSA), profile with SSO, container or pod identity,
// instance metadata (IMDSv2 only). See [clouds](clouds.md).
type awsSettings struct {
	settings.At
	// Service of the signature. The default is `bedrock-mantle` for a host name that
	// begins with it, and `bedrock` for others.
	Service string `key:"service" example:"bedrock"`
	// Profile of the shared configuration files. A profile with `credential_process` is
	// refused. The default is AWS_PROFILE, or `default`.
	Profile string `key:"profile" example:"models"`
	// Roles that are assumed one after the other, beginning with the credential that
	// the SDK finds. An entry is the ARN itself or a mapping.
	Roles []awsRoleSettings `key:"roles"`
}

// awsRoleSettings is a role that is assumed.
type awsRoleSettings struct {
	settings.At
	// ARN of the role.
	ARN string `key:"arn" example:"arn:aws:iam::123456789012:role/models"`
	// External id that the role's trust policy demands. None by default.
	ExternalID string `key:"external_id" example:"gateway-7"`
	// Name of the session in CloudTrail. The default is `isogloss`.
	Session string `key:"session" example:"gateway"`
	// Session tags. None by default.
	Tags map[string]string `key:"tags" example:"{team: search}"`
	// Keys of the tags that later roles keep. None by default.
	TransitiveTags []string `key:"transitive_tags" example:"[team]"`
	// Duration of the session, from 15m to 12h; at most 1h for a role that is assumed
	// by another. The default is 15m.
	Duration time.Duration `key:"duration" example:"1h"`
}

// FromText lets a role be written by its ARN alone.
func (f *awsRoleSettings) FromText(text string) { f.ARN = text }

// googleSettings is the source of the credential for `auth: google`. Without a file it is
// that of application default credentials: GOOGLE_APPLICATION_CREDENTIALS, the file of
// gcloud, the metadata server. See [clouds](clouds.md).
type googleSettings struct {
	settings.At
	// File with a service account's key or a credential configuration, such as that of
	// workload identity federation. One that starts a program is refused. The gateway
	// reads it again when it changes. None by default.
	Credentials string `key:"credentials" example:"/etc/isogloss/vertex.json"`
	// Service account that is impersonated. None by default.
	Impersonate string `key:"impersonate" example:"models@project.iam.gserviceaccount.com"`
	// Service accounts between the credential and the impersonated one. None by
	// default.
	Delegates []string `key:"delegates" example:"[step@project.iam.gserviceaccount.com]"`
	// Scopes of the token. The default is
	// `https://www.googleapis.com/auth/cloud-platform`.
	Scopes []string `key:"scopes" example:"[\"https://www.googleapis.com/auth/cloud-platform\"]"`
	// Project that is billed, sent as x-goog-user-project. None by default.
	QuotaProject string `key:"quota_project" example:"billing-project"`
}

// azureSettings is the source of the credential for `auth: azure`: a client secret or a
// certificate if one is set, else the workload identity of the pod if it has one, else the
// managed identity of the machine. See [clouds](clouds.md).
type azureSettings struct {
	settings.At
	// Tenant, for a client secret and a certificate. The default is AZURE_TENANT_ID for a
	// workload identity.
	Tenant string `key:"tenant" example:"72f988bf-86f1-41af-91ab-2d7cd011db47"`
	// Application id of the client, or client id of a user-assigned identity. The
	// default is the system-assigned identity.
	Client string `key:"client" example:"11111111-2222-3333-4444-555555555555"`
	// Client secret. Written as `${FILE:path}`, the file is read again when it
	// changes.
	ClientSecret secret.String `key:"client_secret" example:"${FILE:/run/secrets/azure}"`
	// PEM or PKCS #12 file with the client's certificate and private key. The gateway
	// reads it again when it changes.
	Certificate string `key:"certificate" example:"/etc/isogloss/azure.pem"`
	// Password of the certificate file. None by default.
	CertificatePassword secret.String `key:"certificate_password" example:"${AZURE_CERTIFICATE_PASSWORD}"`
	// Scope of the token. The default is
	// `https://cognitiveservices.azure.com/.default`.
	Scope string `key:"scope" example:"https://ai.azure.com/.default"`
	// URL of the authority, for a cloud other than the public one. The default is
	// AZURE_AUTHORITY_HOST or `https://login.microsoftonline.com/`.
	Authority string `key:"authority" example:"https://login.microsoftonline.us/"`
}
