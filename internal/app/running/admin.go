package running

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
)

// operatorKeyEnv is the environment variable of the operator key, which an admin address
// that other machines can reach requires.
const operatorKeyEnv = "ISOGLOSS_OPERATOR_KEY"

const (
	adminTimeout = 5 * time.Second
	// MaxAdminBody is the largest request or response of a command.
	MaxAdminBody = 64 << 20
)

// NotListening reports whether a request failed because nothing listens on the
// address.
func NotListening(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// AskAdmin sends a request to the admin address of a gateway, with the operator key of the environment, and decodes the
// response into v.
func AskAdmin(ctx context.Context, a config.Admin, env func(string) (string, bool), method, path string, body []byte, v any) error {
	transport, scheme, err := adminTransport(a)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, scheme+"://"+a.Listen+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if env != nil {
		if key, _ := env(operatorKeyEnv); key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("the server at the admin address %s is not this gateway: %w", a.Listen, err)
	}
	defer func() { _ = resp.Body.Close() }() // a close after reading has no useful error
	return readAdmin(resp, a.Listen, v)
}

func readAdmin(resp *http.Response, address string, v any) error {
	answer, err := io.ReadAll(io.LimitReader(resp.Body, MaxAdminBody))
	if err != nil {
		return fmt.Errorf("read the response of the gateway at %s: %w", address, err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return fmt.Errorf("the gateway at %s requires an operator key; set %s: %s", address, operatorKeyEnv, bytes.TrimSpace(answer))
	default:
		return fmt.Errorf("the gateway at %s: %s", address, bytes.TrimSpace(answer))
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("the server at the admin address %s is not this gateway: %w", address, err)
	}
	return nil
}

// adminTransport returns a transport for the configured admin address. It accepts exactly
// the configured certificate, whatever names the certificate has.
func adminTransport(a config.Admin) (t *http.Transport, scheme string, err error) {
	if a.TLS.Cert == "" {
		return &http.Transport{}, "http", nil
	}
	pair, err := tls.LoadX509KeyPair(a.TLS.Cert, a.TLS.Key)
	if err != nil {
		return nil, "", fmt.Errorf("admin.tls: %w", err)
	}
	return &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // G402: VerifyConnection compares the certificate
		VerifyConnection: func(s tls.ConnectionState) error {
			if !bytes.Equal(s.PeerCertificates[0].Raw, pair.Certificate[0]) {
				return fmt.Errorf("the certificate is not the one of %s; a gateway loads it when it starts", a.TLS.Cert)
			}
			return nil
		},
	}}, "https", nil
}
