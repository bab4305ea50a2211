package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// Bounds of the checks of providers and engines.
const (
	maxProviders = 200
	maxAtOnce    = 32
	maxWorkers   = 20 // of which each is asked
	connectTime  = 5 * time.Second
	answerTime   = 8 * time.Second
	discoverTime = 3 * time.Second
)

// eachProvider calls do for the configured providers, many at once, and returns the results in their order.
func (in *Installation) eachProvider(ctx context.Context, do func(context.Context, *provider.Provider) []Result) (all []Result) {
	if in.Config == nil {
		return nil
	}
	list := in.Config.Providers
	if len(list) > maxProviders {
		all = one(Skipped, "", "%d more providers are not checked", len(list)-maxProviders)
		list = list[:maxProviders]
	}
	results, slots := make([][]Result, len(list)), make(chan struct{}, maxAtOnce)
	var work sync.WaitGroup
	for i, p := range list {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			one, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			crash.Do(quiet(), func() {
				results[i] = in.try(one, check{run: func(_ *Installation, ctx context.Context) []Result { return do(ctx, p) }})
			})
		})
	}
	work.Wait()
	for i, p := range list {
		for _, r := range results[i] {
			r.Of = p.Name
			all = append(all, r)
		}
	}
	return all
}

// checkRoutes looks at the way to each provider: the name, the proxy, the connection, TLS. It sends no credential.
func (in *Installation) checkRoutes(ctx context.Context) []Result {
	return in.eachProvider(ctx, in.checkRoute)
}

func (in *Installation) checkRoute(ctx context.Context, p *provider.Provider) []Result {
	setting := "providers." + p.Name + ".base_url"
	address := *p.BaseURL
	address.RawQuery = "" // it may have a credential
	if unset(p.BaseURL.String()) {
		return unsetResult(setting)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, address.String(), http.NoBody)
	if err != nil {
		return one(Failure, "correct "+setting, "%v", err)
	}
	proxy := proxyOf(req)
	var seen steps
	transport := upstream.NewTransport(connectTime)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, seen.trace())))
	if err != nil {
		text, remedy := cause(err, setting, proxy)
		return one(Failure, remedy, "%s: %s", address.Host, text)
	}
	defer func() { _ = resp.Body.Close() }() // it has no body
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		in.compareClock(p.Name, wholeSeconds(time.Until(date)))
	}
	text := address.Host
	if proxy != "" {
		text += " by the proxy " + proxy
	}
	text += seen.text()
	if c := resp.TLS; c != nil && len(c.PeerCertificates) > 0 {
		end := c.PeerCertificates[0].NotAfter
		text += fmt.Sprintf(", %s with a certificate until %s", tls.VersionName(c.Version), day(end))
		if end.Sub(in.Now()) < soon {
			return one(Warning, "the operator of the server has to renew its certificate", "%s", text)
		}
	}
	if p.BaseURL.Scheme == "http" && !safeurl.IsLoopback(p.BaseURL.Hostname()) && p.Key != "" {
		return one(Warning, "write https:// in "+setting+" if the server has it", "%s; the credential is sent without TLS", text)
	}
	return one(OK, "", "%s", text)
}

// wholeSeconds returns a difference from a date without fractions of a second: half a second is no difference.
func wholeSeconds(d time.Duration) time.Duration {
	if d > -2*time.Second && d < time.Second {
		return 0
	}
	return d
}

// proxyOf returns the proxy of a request without its credentials, or "".
func proxyOf(req *http.Request) string {
	u, err := http.ProxyFromEnvironment(req)
	if err != nil || u == nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// steps are the parts of the way to a server.
type steps struct {
	mu                         sync.Mutex
	dnsBegun, connBegun, shook time.Time
	dns, connect, handshake    time.Duration
	address                    string
}

func (s *steps) trace() *httptrace.ClientTrace {
	do := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	return &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { do(func() { s.dnsBegun = time.Now() }) },
		DNSDone:      func(httptrace.DNSDoneInfo) { do(func() { s.dns = time.Since(s.dnsBegun) }) },
		ConnectStart: func(string, string) { do(func() { s.connBegun = time.Now() }) },
		ConnectDone: func(_, addr string, err error) {
			do(func() {
				if err == nil {
					s.connect, s.address = time.Since(s.connBegun), addr
				}
			})
		},
		TLSHandshakeStart: func() { do(func() { s.shook = time.Now() }) },
		TLSHandshakeDone:  func(tls.ConnectionState, error) { do(func() { s.handshake = time.Since(s.shook) }) },
	}
}

func (s *steps) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var parts []string
	if s.dns > 0 {
		parts = append(parts, "DNS "+took(s.dns))
	}
	if s.address != "" {
		parts = append(parts, "connected to "+s.address+" in "+took(s.connect))
	}
	if s.handshake > 0 {
		parts = append(parts, "TLS "+took(s.handshake))
	}
	if parts == nil {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// checkCredentials has each provider list its models, which needs a valid credential and costs nothing.
func (in *Installation) checkCredentials(ctx context.Context) []Result {
	return in.eachProvider(ctx, in.checkCredential)
}

func (in *Installation) checkCredential(ctx context.Context, p *provider.Provider) []Result {
	setting := "providers." + p.Name
	if unset(p.Secrets()...) || unset(p.BaseURL.String()) {
		return unsetResult(setting)
	}
	if p.Cloud != nil || p.Envelope != "" || !in.Catalog.HasList(p) {
		return append(in.checkCloud(ctx, p), in.spend(ctx, p, "")...)
	}
	begun := time.Now()
	list, err := in.Catalog.Examine(ctx, p)
	r := listResult(p, setting, list, err, time.Since(begun))
	if r.Status != OK {
		return []Result{r}
	}
	first := ""
	if len(list.Models) == 1 {
		first = list.Models[0].ID
	}
	return append([]Result{r}, in.spend(ctx, p, first)...)
}

// listResult says what a provider's response to the request for its models means.
func listResult(p *provider.Provider, setting string, list models.List, err error, d time.Duration) Result {
	var unsigned *models.CredentialError
	redirected := list.Status >= 300 && list.Status < 400
	switch {
	case errors.As(err, &unsigned):
		return result(Failure, "correct the credential of "+setting, "there is no credential: %v", err)
	case err != nil && list.Status == 0:
		return result(Skipped, "see the line of its route", "it could not be reached")
	case list.Status == http.StatusUnauthorized || list.Status == http.StatusForbidden:
		if !hasCredential(p) {
			return result(Failure, "write api_key below "+setting, "it requires a credential (status %d), and none is configured", list.Status)
		}
		return result(Failure, "make a new key at the vendor, and set it as api_key of "+setting, "it refuses the credential (status %d)", list.Status)
	case redirected:
		return result(Failure, "write its final address as "+setting+".base_url", "it redirects (status %d), and a credential is sent to no other address", list.Status)
	case list.Status == http.StatusNotFound:
		return result(Note, "check the path of "+setting+".base_url if requests fail too", "it has no list of models there (status 404), so its credential is not checked")
	case list.Status == http.StatusTooManyRequests:
		return result(Warning, "look at the limits and the balance of the account at the vendor", "it limits requests (status 429)")
	case list.Status >= 500:
		return result(Warning, "look at the status page of the vendor, or at the log of the server", "it fails (status %d)", list.Status)
	case err != nil:
		return result(Warning, "check "+setting+".base_url", "what it sends is no list of models (status %d)", list.Status)
	}
	kind := "its credential is accepted"
	if !hasCredential(p) {
		kind = "it needs no credential"
	}
	return result(OK, "", "%s: %s listed in %s", kind, count(len(list.Models), "model"), took(d))
}

func hasCredential(p *provider.Provider) bool {
	return p.Key != "" || p.Credential != nil || len(p.Secrets()) > 1 && p.Auth.Header() == ""
}

// checkCloud gets the credential of a cloud, or says that a provider cannot be asked for free.
func (in *Installation) checkCloud(ctx context.Context, p *provider.Provider) []Result {
	if p.Credential == nil {
		return one(Skipped, "--spend sends a short request to a model, which costs a few tokens", "it has no list of models by which the credential could be checked")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.BaseURL.String(), http.NoBody)
	if err == nil {
		err = p.Credential.Sign(ctx, req, nil) // the request is not sent
	}
	if err != nil {
		return one(Failure, "correct the credential of providers."+p.Name+"; docs/clouds.md says where it is read from", "the cloud gives no credential: %v", err)
	}
	return one(OK, "", "the cloud gives a credential; whether it may use the models, --spend checks")
}

// spend sends a short request to a model of a provider, if that is wanted.
func (in *Installation) spend(ctx context.Context, p *provider.Provider, otherwise string) []Result {
	if in.State == nil {
		return nil
	}
	model := in.modelOf(p, otherwise)
	if model == "" {
		return one(Skipped, "name a model of it in models", "no request is sent: the configuration names no model of it")
	}
	begun := time.Now()
	got, err := in.count(ctx, p, model)
	if err != nil {
		return one(Failure, "check the model's name, and what the account may use", "%s: a short request fails: %v", model, err)
	}
	return one(OK, "", "%s: %s in %s", model, got, took(time.Since(begun)))
}

// modelOf returns the first model of a provider that the configuration names.
func (in *Installation) modelOf(p *provider.Provider, otherwise string) string {
	for _, m := range in.Config.Models {
		for _, t := range m.Targets {
			if t.Provider == p && !strings.HasSuffix(t.Model, "*") {
				return t.Model
			}
		}
	}
	return otherwise
}

// checkEngines asks the sources of workers, and some of the workers.
func (in *Installation) checkEngines(ctx context.Context) (list []Result) {
	if in.Workers == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, discoverTime)
	defer cancel()
	var mu sync.Mutex
	var found discover.Snapshot
	in.Workers.Run(ctx, func(s discover.Snapshot) {
		mu.Lock()
		defer mu.Unlock()
		if found = s; !s.Stale && len(in.Workers.Status().Silent) == 0 {
			cancel()
		}
	})
	status := in.Workers.Status()
	local := in.Config.Discover.Local
	switch silent := strings.Join(status.Silent, ", "); {
	case silent != "":
		list = append(list, result(Failure, "check what discover configures", "%s: the source of workers does not answer", silent))
	case len(found.Workers) == 0 && local:
		return one(Note, "", "no engine was found on this machine's usual ports")
	case len(found.Workers) == 0:
		list = append(list, result(Warning, "start an engine that registers itself ('isogloss register'), or check discover", "no worker is registered"))
	default:
		list = append(list, result(OK, "", "%s found", count(len(found.Workers), "model of workers")))
	}
	if status.Refused > 0 {
		list = append(list, result(Warning, "the log of the gateway says why; see discover.networks and discover.models", "%d workers are refused", status.Refused))
	}
	return append(list, in.checkWorkers(ctx, found)...)
}

// checkWorkers asks some workers for their models.
func (in *Installation) checkWorkers(ctx context.Context, found discover.Snapshot) (list []Result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTime)
	defer cancel()
	seen := map[string]bool{}
	var asked []*provider.Provider
	for _, t := range in.Targets(found) {
		if at := t.Provider.BaseURL.Host; !seen[at] && len(asked) < maxWorkers && in.Catalog.HasList(t.Provider) {
			seen[at] = true
			asked = append(asked, t.Provider)
		}
	}
	results := make([]Result, len(asked))
	var work sync.WaitGroup
	for i, p := range asked {
		work.Go(func() {
			crash.Do(quiet(), func() {
				begun := time.Now()
				models, err := in.Catalog.Examine(ctx, p)
				if results[i] = listResult(p, "discover", models, err, time.Since(begun)); err != nil && models.Status == 0 {
					text, _ := cause(err, "", "")
					results[i] = result(Failure, "start it, or remove its registration", "%s", text)
				}
				results[i].Of = p.BaseURL.Host
			})
		})
	}
	work.Wait()
	return results
}
