package config

import "github.com/isogloss-gateway/isogloss/internal/base/secret"

// awsFile is the source of the credential for `auth: aws`. The AWS SDK finds it:
// environment, web identity (IRSA), profile with SSO, container or pod identity,
// instance metadata (IMDSv2 only). See [clouds](clouds.md).
type awsFile struct {
	at
	// Service of the signature. The default is `bedrock-mantle` for a host name that
	// begins with it, and `bedrock` for others.
	Service string `key:"service" example:"bedrock"`
	// Profile of the shared configuration files. A profile with `credential_process` is
	// refused. The default is AWS_PROFILE, or `default`.
	Profile string `key:"profile" example:"models"`
	// Roles that are assumed one after the other, beginning with the credential that
	// the SDK finds. An entry is the ARN itself or a mapping.
	Roles []awsRoleFile `key:"roles"`
}

// awsRoleFile is a role that is assumed.
type awsRoleFile struct {
	at
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
	Duration duration `key:"duration" example:"1h"`
}

// fromText lets a role be written by its ARN alone.
func (f *awsRoleFile) fromText(text string) { f.ARN = text }

// googleFile is the source of the credential for `auth: google`. Without a file it is
// that of application default credentials: GOOGLE_APPLICATION_CREDENTIALS, the file of
// gcloud, the metadata server. See [clouds](clouds.md).
type googleFile struct {
	at
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

// azureFile is the source of the credential for `auth: azure`: a client secret or a
// certificate if one is set, else the workload identity of the pod if it has one, else the
// managed identity of the machine. See [clouds](clouds.md).
type azureFile struct {
	at
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
