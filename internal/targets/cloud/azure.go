package cloud

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azurecloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// azureVendor gets tokens of Microsoft Entra: with a client secret or a certificate, as a
// workload identity, or as a managed identity.
type azureVendor struct{ *provider.Azure }

func (v *azureVendor) fetch(ctx context.Context, client *http.Client) (*token, error) {
	c, secrets, err := v.credential(client)
	if err != nil {
		return nil, err
	}
	options := policy.TokenRequestOptions{Scopes: []string{v.Scope}}
	if _, managed := c.(*azidentity.ManagedIdentityCredential); managed {
		// All managed identities of a process share a cache, which claims pass by. They are not
		// sent to the metadata service.
		options.Claims = "{}"
	}
	t, err := c.GetToken(ctx, options)
	if err != nil {
		return nil, hide(err, secrets)
	}
	authorization := []string{"Bearer " + t.Token}
	sign := func(_ time.Time, req *http.Request, _ []byte) error {
		req.Header["Authorization"] = authorization
		return nil
	}
	return &token{sign: sign, expires: ending(t.ExpiresOn), renew: t.RefreshOn, secrets: append(secrets, t.Token)}, nil
}

// credential returns a new credential without cached tokens, and the secrets that it uses.
func (v *azureVendor) credential(client *http.Client) (c azcore.TokenCredential, secrets []string, err error) {
	options := policy.ClientOptions{Transport: client}
	if v.Authority != "" {
		options.Cloud = azurecloud.Configuration{ActiveDirectoryAuthorityHost: v.Authority, Services: map[azurecloud.ServiceName]azurecloud.ServiceConfiguration{}}
	}
	switch {
	case v.Secret != nil:
		text := v.Secret.Get().Reveal()
		c, err = azidentity.NewClientSecretCredential(v.Tenant, v.Client, text, &azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: v.Authority != ""})
		return c, []string{text}, err
	case v.Certificate != "":
		c, err = v.withCertificate(options)
	case v.workload():
		c, err = azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: options, ClientID: v.Client, TenantID: v.Tenant, DisableInstanceDiscovery: v.Authority != ""})
	default:
		o := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: options}
		if v.Client != "" {
			o.ID = azidentity.ClientID(v.Client)
		}
		c, err = azidentity.NewManagedIdentityCredential(o)
	}
	return c, nil, err
}

// withCertificate returns the credential of a certificate, which is read again each time.
func (v *azureVendor) withCertificate(options policy.ClientOptions) (azcore.TokenCredential, error) {
	text, err := os.ReadFile(v.Certificate)
	if err != nil {
		return nil, fmt.Errorf("needs a file: %w; create it, or write another path as azure.certificate", err)
	}
	certs, key, err := azidentity.ParseCertificates(text, []byte(v.Password.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("the file %s has no certificate with its private key that can be read: %w; write a PEM or PKCS #12 file, and its password as azure.certificate_password", v.Certificate, err)
	}
	return azidentity.NewClientCertificateCredential(v.Tenant, v.Client, certs, key, &azidentity.ClientCertificateCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: v.Authority != "", SendCertificateChain: true})
}

// workload reports whether the pod has a workload identity.
func (v *azureVendor) workload() bool { return os.Getenv("AZURE_FEDERATED_TOKEN_FILE") != "" }

func (v *azureVendor) files() []string {
	switch {
	case v.Secret != nil && v.Secret.Path() != "":
		return []string{v.Secret.Path()}
	case v.Certificate != "":
		return []string{v.Certificate}
	}
	return nil
}

// check builds the credential, which reads the certificate and sends nothing.
func (v *azureVendor) check() error {
	_, _, err := v.credential(http.DefaultClient)
	return err
}
