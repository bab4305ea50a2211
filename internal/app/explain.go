package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/app/doctor"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// explainPath is the path on the admin address.
const explainPath = "/explain"

// operatorKeyEnv is the environment variable of the operator key, which an admin address
// that other machines can reach requires.
const operatorKeyEnv = "ISOGLOSS_OPERATOR_KEY"

const (
	adminTimeout = 5 * time.Second
	maxAdminBody = 64 << 20 // of a request or a response
)

// Explain asks the running gateway which targets it would try for a request. If no
// gateway listens on the admin address, Explain computes the result without live state
// and live is false. If a gateway listens but its response cannot be read, Explain
// returns an error.
func (o Options) Explain(ctx context.Context, dialect, model string, body []byte) (e *fleet.Explanation, live bool, err error) {
	cfg, wrong := o.findRunning()
	if cfg == nil {
		return nil, false, wrong
	}
	e = &fleet.Explanation{}
	query := url.Values{"dialect": {dialect}, "model": {model}}
	err = o.askRunning(ctx, cfg.Admin, http.MethodPost, explainPath+"?"+query.Encode(), body, e)
	switch {
	case !notListening(err):
		return e, true, err
	case wrong != nil:
		return nil, false, wrong
	}
	e, err = explainFresh(cfg, dialect, model, body)
	return e, false, err
}

// findRunning returns the configuration with the admin address of the running gateway. The
// error says why the configuration can be used for nothing else: in this environment, which
// need not be the gateway's, variables are missing. The configuration is nil if it has
// another mistake.
func (o Options) findRunning() (*config.Config, error) {
	cfg, err := o.LoadConfig()
	var nobody *config.NobodyError
	if err == nil || errors.As(err, &nobody) {
		return cfg, err
	}
	lenient := o
	lenient.Env = func(name string) (string, bool) {
		value, ok := o.Env(name)
		if !ok && !strings.HasPrefix(name, "ISOGLOSS_") {
			return doctor.Placeholder, true
		}
		return value, ok
	}
	cfg, again := lenient.LoadConfig()
	if again != nil {
		return nil, err
	}
	return cfg, err
}

// notListening reports whether a request failed because nothing listens on the
// address.
func notListening(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// askRunning sends a request to the admin address and decodes the response into v.
func (o Options) askRunning(ctx context.Context, a config.Admin, method, path string, body []byte, v any) error {
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
	if o.Env != nil {
		if key, _ := o.Env(operatorKeyEnv); key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("the server at the admin address %s is not this gateway: %w", a.Listen, err)
	}
	defer func() { _ = resp.Body.Close() }() // a close after reading has no useful error
	return readRunning(resp, a.Listen, v)
}

func readRunning(resp *http.Response, address string, v any) error {
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminBody))
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

// explainFresh computes an explanation with a new relay, which has no live state and
// sends no requests.
func explainFresh(cfg *config.Config, dialect, model string, body []byte) (*fleet.Explanation, error) {
	for _, p := range cfg.Providers {
		p.Health = provider.Check{}
	}
	observer, err := observe.New(observe.Options{Log: io.Discard, Level: slog.LevelError, Format: "json"})
	if err != nil {
		return nil, err
	}
	defer closeObserver(observer)
	gateway := relay.New(all.Dialects(), observer)
	defer gateway.Close()
	state := newState(cfg, discover.Snapshot{}, time.Now())
	if state.Books.Prices, err = newBook(&cfg.Prices); err != nil {
		return nil, err
	}
	gateway.Use(state)
	e, fault := gateway.Explain(protocol.Name(dialect), model, body)
	if fault != nil {
		return nil, fault
	}
	return e, nil
}

// serveExplain handles the requests of Options.Explain.
func serveExplain(gateway *relay.Relay) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
		if err != nil {
			http.Error(w, "the request could not be read", http.StatusBadRequest)
			return
		}
		e, fault := gateway.Explain(protocol.Name(r.URL.Query().Get("dialect")), r.URL.Query().Get("model"), body)
		if fault != nil {
			http.Error(w, fault.Message, fault.HTTPStatus())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(e) // fails only if the client has disconnected
	})
}
