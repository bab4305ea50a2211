package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/compute/metadata"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// googleVendor gets tokens of Google Cloud: with a file, which is named or is that of
// application default credentials, or else from the metadata server.
type googleVendor struct{ *provider.Google }

func (v *googleVendor) fetch(ctx context.Context, client *http.Client) (*token, error) {
	value, expires, err := v.own(ctx, client)
	if err != nil {
		return nil, err
	}
	secrets := []string{value}
	if v.Impersonate != "" {
		if value, expires, err = v.impersonate(ctx, client, value); err != nil {
			return nil, hide(err, secrets)
		}
		secrets = append(secrets, value)
	}
	return &token{sign: v.newSigner(value), expires: ending(expires), secrets: secrets}, nil
}

// newSigner returns the function that sets a token and the project that pays.
func (v *googleVendor) newSigner(value string) func(time.Time, *http.Request, []byte) error {
	authorization := []string{"Bearer " + value}
	return func(_ time.Time, req *http.Request, _ []byte) error {
		req.Header["Authorization"] = authorization
		if v.QuotaProject != "" {
			req.Header["X-Goog-User-Project"] = []string{v.QuotaProject}
		}
		return nil
	}
}

// own returns the token of the credential itself.
func (v *googleVendor) own(ctx context.Context, client *http.Client) (value string, expires time.Time, err error) {
	text, kind, err := v.read()
	if err != nil {
		return "", time.Time{}, err
	}
	if text == nil {
		return v.fromMetadata(ctx, client)
	}
	c, err := credentials.NewCredentialsFromJSON(kind, text, &credentials.DetectOptions{Scopes: v.Scopes, Client: client, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", time.Time{}, err
	}
	t, err := c.Token(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	return t.Value, t.Expiry, nil
}

// fromMetadata returns the token of the machine's or pod's service account.
func (v *googleVendor) fromMetadata(ctx context.Context, client *http.Client) (value string, expires time.Time, err error) {
	path := "instance/service-accounts/default/token?" + url.Values{"scopes": {strings.Join(v.Scopes, ",")}}.Encode()
	text, err := metadata.NewWithOptions(&metadata.Options{Client: client}).GetWithContext(ctx, path)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("no file has a credential, and the metadata server gives none: %w", err)
	}
	return readToken([]byte(text))
}

// maxLife is the longest life of a token in seconds that is believed.
const maxLife = 24 * 3600

func readToken(text []byte) (value string, expires time.Time, err error) {
	var t struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
	}
	if json.Unmarshal(text, &t) != nil || t.AccessToken == "" || t.ExpiresIn <= 0 {
		return "", time.Time{}, errors.New("the metadata server sent no token")
	}
	return t.AccessToken, time.Now().Add(time.Duration(min(t.ExpiresIn, maxLife)) * time.Second), nil
}

// impersonate returns a token of the service account Impersonate. Google's own package for it
// brings gRPC and a transport that are of no use here.
func (v *googleVendor) impersonate(ctx context.Context, client *http.Client, own string) (value string, expires time.Time, err error) {
	ctx, clock := withClock(ctx)
	delegates := make([]string, len(v.Delegates))
	for i, d := range v.Delegates {
		delegates[i] = "projects/-/serviceAccounts/" + d
	}
	body, err := json.Marshal(map[string]any{"scope": v.Scopes, "lifetime": "3600s", "delegates": delegates})
	if err != nil {
		return "", time.Time{}, err
	}
	address := "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/" + url.PathEscape(v.Impersonate) + ":generateAccessToken"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return "", time.Time{}, err
	}
	req.Header.Set("Authorization", "Bearer "+own)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return "", time.Time{}, err
	}
	defer func() { _ = resp.Body.Close() }() // a close after reading has no useful error
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", time.Time{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return "", time.Time{}, fmt.Errorf("impersonating %s: status %d: %s", v.Impersonate, resp.StatusCode, text)
	}
	var t struct {
		AccessToken string    `json:"accessToken"`
		ExpireTime  time.Time `json:"expireTime"`
	}
	if json.Unmarshal(text, &t) != nil || t.AccessToken == "" {
		return "", time.Time{}, fmt.Errorf("impersonating %s: the response has no token", v.Impersonate)
	}
	return t.AccessToken, clock.local(t.ExpireTime), nil
}

// read returns the credential's file and its type, or nil without an error if there is none.
func (v *googleVendor) read() ([]byte, credentials.CredType, error) {
	path, required := v.path()
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if errors.Is(err, os.ErrNotExist) && !required {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("needs a file: %w; create it, or write its path as google.credentials", err)
	}
	var file any
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, "", fmt.Errorf("the file %s is not JSON; write the path of a service account's key or of a credential configuration", path)
	}
	if runsProgram(file) {
		return nil, "", fmt.Errorf("the file %s has credential_source.executable, which the gateway does not run; use a file, a URL or a certificate as the source", path)
	}
	members, _ := file.(map[string]any)
	kind, _ := members["type"].(string)
	switch t := credentials.CredType(kind); t {
	case credentials.ServiceAccount, credentials.AuthorizedUser, credentials.ExternalAccount, credentials.ImpersonatedServiceAccount, credentials.ExternalAccountAuthorizedUser:
		return text, t, nil
	}
	return nil, "", fmt.Errorf("the file %s has the type %q; write the path of a service account's key or of a credential configuration", path, kind)
}

// runsProgram reports whether a credential configuration, or one in it, has a program as its
// source.
func runsProgram(file any) bool {
	members, _ := file.(map[string]any)
	for name, value := range members {
		if name == "executable" || runsProgram(value) {
			return true
		}
	}
	return false
}

// path returns the file of the credential, and whether it must exist.
func (v *googleVendor) path() (path string, required bool) {
	if v.File != "" {
		return v.File, true
	}
	if path := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"); path != "" {
		return path, true
	}
	folder := os.Getenv("HOME")
	if runtime.GOOS == "windows" {
		folder = os.Getenv("APPDATA")
	} else {
		folder = filepath.Join(folder, ".config")
	}
	return filepath.Join(folder, "gcloud", "application_default_credentials.json"), false
}

func (v *googleVendor) files() []string {
	path, _ := v.path()
	return []string{path}
}

func (v *googleVendor) check() error {
	_, _, err := v.read()
	return err
}
