package signin

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// TestInventedAttempts sends answers of a provider with cookies that the gateway has not made: they
// write nothing into the audit log, tell nothing about user codes, and cancel no sign-in.
func TestInventedAttempts(t *testing.T) {
	g := newGateway(t)
	device, user := g.start(t)
	code := digest(userSecret, userCode(user))
	honest := g.server.sealAttempt(g.client, attempt{"s", "n", "v", code}, time.Now().Add(time.Minute))
	for name, value := range map[string]string{
		"four parts":         "s.n.v." + code,
		"no MAC":             "s.n.v." + code + ".99999999999",
		"empty MAC":          "s.n.v." + code + ".99999999999.",
		"wrong MAC":          "s.n.v." + code + ".99999999999.AAAA",
		"another state":      strings.Replace(honest, "s.", "s2.", 1),
		"another origin":     g.server.sealAttempt(g.admin, attempt{"s", "n", "v", code}, time.Now().Add(time.Minute)),
		"too old":            g.server.sealAttempt(g.client, attempt{"s", "n", "v", code}, time.Now().Add(-time.Second)),
		"another node's key": (&Server{o: Options{Key: []byte("x")}}).sealAttempt(g.client, attempt{"s", "n", "v", code}, time.Now().Add(time.Minute)),
	} {
		for range 20 {
			b := newBrowser(t)
			for _, at := range []string{g.client + callbackPath, g.admin + loginCallbackPath} {
				p := b.do("GET", at+"?error=access_denied&state=s", nil, "Cookie", attemptCookie+"="+value)
				if p.status != http.StatusBadRequest {
					t.Errorf("%s at %s: %d", name, at, p.status)
				}
			}
		}
	}
	if n := g.audited(t, "sign-in.refuse"); n != 0 {
		t.Errorf("%d entries in the audit log", n)
	}
	if n, err := g.store.PendingSignIn(t.Context(), code, time.Now()); err != nil || n.Status != store.SignInPending {
		t.Errorf("the sign-in of %s does not wait any more: %v", device, err)
	}
	for range 50 { // with a cookie that the gateway has made
		if p := newBrowser(t).do("GET", g.client+callbackPath+"?error=access_denied&state=s", nil, "Cookie", attemptCookie+"="+honest); p.status != http.StatusForbidden {
			t.Fatalf("%d %s", p.status, p.text)
		}
	}
	if n := g.audited(t, "sign-in.refuse"); n != 1 {
		t.Errorf("%d entries about 50 refusals in a minute", n)
	}
}

// TestInventedTokens renews and revokes tokens that nobody has issued: few calls reach the provider.
func TestInventedTokens(t *testing.T) {
	g := newGateway(t)
	refresh, _ := g.signIn(t, "ann")["refresh_token"].(string)
	if p := g.refreshWith(t, refresh); p.status != http.StatusOK {
		t.Fatalf("%d %s", p.status, p.text)
	}
	counted := &counting{RoundTripper: g.server.provider.client.Transport}
	g.server.provider.client.Transport = counted
	limited := 0
	for i := range 100 {
		p := g.refreshWith(t, "invented")
		if i%2 == 0 {
			p = newBrowser(t).do("POST", g.client+revokePath, url.Values{"token": {"invented"}})
		}
		if p.status == http.StatusTooManyRequests {
			limited++
			if p.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	if counted.calls > 30 || limited < 60 {
		t.Errorf("%d of 100 calls reached the provider, %d were limited", counted.calls, limited)
	}
}

// counting counts the calls to the provider.
type counting struct {
	http.RoundTripper
	calls int
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls++
	return c.RoundTripper.RoundTrip(r)
}

// TestSlots keeps a share of the calls for other addresses and for sessions.
func TestSlots(t *testing.T) {
	var s slots
	take := func(from netip.Addr, n int) (leave []func()) {
		for range n {
			if l, ok := s.enter(from); ok {
				leave = append(leave, l)
			}
		}
		return leave
	}
	a := netip.MustParseAddr("192.0.2.1")
	first := take(a, 100)
	if len(first) != maxFromSource {
		t.Errorf("one address has %d slots", len(first))
	}
	others := len(first)
	var all []func()
	for i := range 100 {
		got := take(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 10)
		others += len(got)
		all = append(all, got...)
	}
	if others != maxStrangers {
		t.Errorf("clients without a session have %d slots", others)
	}
	sessions := take(netip.Addr{}, 100)
	if len(sessions) != maxCalls-maxStrangers {
		t.Errorf("sessions have %d slots", len(sessions))
	}
	for _, leave := range append(append(first, all...), sessions...) {
		leave()
	}
	if s.all != 0 || s.strangers != 0 || len(s.from) != 0 {
		t.Errorf("%d, %d and %d are left", s.all, s.strangers, len(s.from))
	}
	if got := take(netip.Addr{}, 100); len(got) != maxCalls {
		t.Errorf("sessions have %d slots of all", len(got))
	}
}

// TestRefusal checks that the error of a provider's answer has no text of the answer.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   string
	}{
		{400, "invalid_grant", errRefused.Error() + ": invalid_grant"},
		{400, "the canary is bad", errRefused.Error() + ": other"},
		{429, "", "the identity provider responded with status 429"},
		{502, "", "the identity provider responded with status 502"},
	} {
		err := refusal(&oauth2.RetrieveError{Response: &http.Response{StatusCode: c.status}, Body: []byte("canary"), ErrorCode: c.code, ErrorDescription: "canary"})
		if err.Error() != c.want || errors.Is(err, errRefused) != (c.status == 400) {
			t.Errorf("%d %q: %v, want %s", c.status, c.code, err, c.want)
		}
	}
}
