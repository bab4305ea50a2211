package cloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer is a scripted vendor. It counts what a test needs to know.
type issuer struct {
	life, takes time.Duration // life 0: a token without an end
	paths       []string
	every       int // so many fetches, one fails; 0: none

	mu       sync.Mutex
	err      error
	inFlight int
	most     int // fetches in flight at once
	fetches  int
}

func (i *issuer) files() []string { return i.paths }
func (i *issuer) check() error    { return nil }

// TestShortLife renews tokens that live for seconds ahead of their end too, so that an issuer
// which fails now and then is not noticed.
func TestShortLife(t *testing.T) {
	for _, life := range []time.Duration{8 * time.Second, 12 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			i := &issuer{life: life, takes: 100 * time.Millisecond, every: 4}
			c := start(t, i, nil)
			for n := range 3000 {
				if _, took, err := sign(t, c); err != nil || took > 0 && n > 0 {
					t.Fatalf("%s, request %d: %v after %s", life, n, err, took)
				}
				time.Sleep(100 * time.Millisecond)
			}
			c.Close()
			if most := int(300*time.Second/(life/2)) * 2; i.most != 1 || i.count() > most {
				t.Errorf("%s: %d fetches, %d at once; want at most %d", life, i.count(), i.most, most)
			}
		})
	}
}

// TestFailedJustBefore has a renewal that fails just before the token's end: the request after
// the end gets a token by another fetch.
func TestFailedJustBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{life: 6 * time.Second, takes: 1400 * time.Millisecond, every: 2}
		c := start(t, i, nil)
		if _, _, err := sign(t, c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6050 * time.Millisecond) // the second fetch has failed 150 ms before
		if got, _, err := sign(t, c); err != nil || got != "token-3-of-the-issuer" {
			t.Errorf("%s, %v", got, err)
		}
		c.Close()
	})
}

func (i *issuer) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.err = err
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

func (i *issuer) fetch(ctx context.Context, _ *http.Client) (*token, error) {
	i.mu.Lock()
	i.inFlight++
	i.fetches++
	i.most = max(i.most, i.inFlight)
	n := i.fetches
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.inFlight--
	}()
	select {
	case <-time.After(i.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	i.mu.Lock()
	err := i.err
	i.mu.Unlock()
	if i.every > 0 && n%i.every == 0 {
		err = errors.New("status 403")
	}
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("token-%d-of-the-issuer", n)
	if len(i.paths) > 0 {
		data, err := os.ReadFile(i.paths[0])
		if err != nil {
			return nil, err
		}
		text = string(data)
	}
	t := &token{secrets: []string{text}, sign: func(now time.Time, req *http.Request, _ []byte) error {
		req.Header.Set("Authorization", "Bearer "+text)
		req.Header.Set("X-Time", now.UTC().Format(time.RFC3339))
		return nil
	}}
	if i.life > 0 {
		t.expires = time.Now().Add(i.life)
	}
	return t, nil
}

func start(t *testing.T, i *issuer, log *bytes.Buffer) *Credential {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	if log != nil {
		logger = slog.New(slog.NewTextHandler(log, nil))
	}
	c := newCredential(i, nil, logger)
	c.start()
	t.Cleanup(c.Close)
	return c
}

func newRequest() *http.Request {
	return &http.Request{Header: http.Header{}}
}

// sign returns the token of a signed request, and how long the signature took.
func sign(t *testing.T, c *Credential) (string, time.Duration, error) {
	t.Helper()
	began, req := time.Now(), newRequest()
	err := c.Sign(t.Context(), req, nil)
	return strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "), time.Since(began), err
}

// TestExpiryUnderLoad signs requests for hours: only the first waits for a token, all are
// signed, and there is one fetch for each token.
func TestExpiryUnderLoad(t *testing.T) {
	for _, life := range []time.Duration{time.Minute, 15 * time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			i := &issuer{life: life, takes: 2 * time.Second}
			c := start(t, i, nil)
			var load sync.WaitGroup
			var waited atomic.Int64
			for range 8 {
				load.Go(func() {
					for n := range 5000 {
						_, took, err := sign(t, c)
						if err != nil {
							t.Errorf("after %d requests: %v", n, err)
							return
						}
						if took > 0 {
							waited.Add(1)
						}
						time.Sleep(time.Second)
					}
				})
			}
			load.Wait()
			if waited.Load() != 8 {
				t.Errorf("%s: %d requests waited, want the first of 8 callers", life, waited.Load())
			}
			if i.most != 1 {
				t.Errorf("%s: %d fetches at once", life, i.most)
			}
			if most := int(5000*time.Second/(life*3/4)) + 2; i.fetches > most {
				t.Errorf("%s: %d fetches, want at most %d", life, i.fetches, most)
			}
			c.Close()
		})
	}
}

// TestColdStart has many requests before the first token: they share one fetch.
func TestColdStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{life: time.Hour, takes: 20 * time.Second}
		c := start(t, i, nil)
		var load sync.WaitGroup
		for range 500 {
			load.Go(func() {
				if _, took, err := sign(t, c); err != nil || took != 20*time.Second {
					t.Errorf("%v after %s", err, took)
				}
			})
		}
		load.Wait()
		if i.fetches != 1 {
			t.Errorf("%d fetches", i.fetches)
		}
		c.Close()
	})
}

// TestIssuerAway holds a token for its life, then fails fast, then comes back. Two lines of
// the log tell it.
func TestIssuerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		i := &issuer{life: time.Hour, takes: time.Second}
		c := start(t, i, &log)
		if _, _, err := sign(t, c); err != nil {
			t.Fatal(err)
		}
		i.fail(errors.New("status 403: token-1-of-the-issuer is\nnot allowed"))
		for range 3590 {
			if _, took, err := sign(t, c); err != nil || took > 0 {
				t.Fatalf("a valid token was not used: %v after %s", err, took)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		before := i.count()
		for range 100 {
			if _, _, err := sign(t, c); err == nil || strings.Contains(err.Error(), "token-1") || !strings.Contains(err.Error(), "*** is not allowed") {
				t.Fatal(err)
			}
		}
		if n := i.count() - before; n > 1 {
			t.Errorf("100 requests at once led to %d fetches", n)
		}
		i.fail(nil)
		time.Sleep(failFast)
		if _, _, err := sign(t, c); err != nil {
			t.Errorf("the issuer is back: %v", err)
		}
		c.Close()
		lines := strings.Count(log.String(), "\n")
		if lines != 2 || !strings.Contains(log.String(), "could not be renewed") || !strings.Contains(log.String(), "again") || strings.Contains(log.String(), "token-1") {
			t.Error(log.String())
		}
	})
}

// TestSlowIssuer never answers: a request waits no longer than its context.
func TestSlowIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{life: time.Hour, takes: time.Hour}
		c := start(t, i, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := c.Sign(ctx, newRequest(), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, took, err := sign(t, c); err == nil || took > fetchTime {
			t.Errorf("%v after %s", err, took)
		}
		c.Close()
	})
}

func refusal(status int, date time.Time) *http.Response {
	h := http.Header{}
	if !date.IsZero() {
		h.Set("Date", date.UTC().Format(http.TimeFormat))
	}
	return &http.Response{StatusCode: status, Header: h}
}

// TestRefusedToken renews a refused token once for all requests that have it, and not again
// for a refusal of the new one.
func TestRefusedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{life: time.Hour, takes: time.Second}
		c := start(t, i, nil)
		var load sync.WaitGroup
		for n := range 100 {
			load.Go(func() {
				req := newRequest()
				if err := c.Sign(t.Context(), req, nil); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Duration(n%7) * 300 * time.Millisecond)
				if !c.Renew(t.Context(), req, refusal(403, time.Now())) {
					t.Error("a request with the first token is not sent again")
				}
				if err := c.Sign(t.Context(), req, nil); err != nil || !strings.Contains(req.Header.Get("Authorization"), "token-2") {
					t.Errorf("%v %v", err, req.Header)
				}
				if c.Renew(t.Context(), req, refusal(403, time.Now())) {
					t.Error("the second token was refused too, so the token is not the reason")
				}
			})
		}
		load.Wait()
		if i.fetches != 2 || i.most != 1 {
			t.Errorf("%d fetches, %d at once", i.fetches, i.most)
		}
		c.Close()
	})
}

// TestClockSkew signs with the upstream's time after a refusal that shows another one.
func TestClockSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &issuer{life: time.Hour}
		c := start(t, i, nil)
		req := newRequest()
		if err := c.Sign(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		theirs := time.Now().Add(20 * time.Minute)
		if !c.Renew(t.Context(), req, refusal(403, theirs)) {
			t.Error("the request is not sent again with the right time")
		}
		if err := c.Sign(t.Context(), req, nil); err != nil || req.Header.Get("X-Time") != theirs.UTC().Format(time.RFC3339) {
			t.Errorf("%v: signed at %s, want %s", err, req.Header.Get("X-Time"), theirs)
		}
		if i.fetches != 1 {
			t.Errorf("%d fetches", i.fetches)
		}
		c.Close()
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil { // as Kubernetes and Vault's agent do
		t.Fatal(err)
	}
}

// TestRotatedFile uses the keys of a replaced file for the next request. A file that is away
// does no harm.
func TestRotatedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, "first-text")
	i := &issuer{paths: []string{path}}
	c := start(t, i, nil)
	for n := range 50 {
		want := fmt.Sprintf("text-%04d", n)
		write(t, path, want)
		if got, _, err := sign(t, c); err != nil || got != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, _, err := sign(t, c); err != nil || got != "text-0049" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestRotatedFileOfAToken fetches a new token in the background when the file behind it changes.
func TestRotatedFileOfAToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, "first-text")
	i := &issuer{paths: []string{path}, life: time.Hour}
	c := start(t, i, nil)
	if got, _, err := sign(t, c); err != nil || got != "first-text" {
		t.Fatal(got, err)
	}
	write(t, path, "second-text")
	testrig.Eventually(t, "the new token is used", func() bool {
		got, _, err := sign(t, c)
		if err != nil || got != "first-text" && got != "second-text" {
			t.Fatal(got, err)
		}
		return got == "second-text"
	})
}

// TestSecretsOfAToken checks that texts lose the present token and the one before it.
func TestSecretsOfAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, &issuer{life: time.Hour}, nil)
		_, _, _ = sign(t, c)
		time.Sleep(70 * time.Minute)
		got := string(c.Redactor().Redact([]byte("token-1-of-the-issuer token-2-of-the-issuer token-3-of-the-issuer")))
		if got != "*** *** token-3-of-the-issuer" {
			t.Error(got)
		}
		c.Close()
	})
}
