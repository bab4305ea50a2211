package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// Times of renewal.
const (
	renewBefore  = 210 * time.Second // the end of a token; metadata servers give a new one 4 minutes before it
	renewPause   = 15 * time.Second  // at least between two renewals of a valid token, or half of its life
	renewSoonest = time.Second       // at least, however short its life is
	fetchTime    = 30 * time.Second  // of one fetch, with the retries of Google's and Microsoft's libraries
	retryFirst   = time.Second       // after a failed fetch
	retryLast    = 30 * time.Second
	failFast     = time.Second            // for so long a failed fetch is the answer to further requests
	refusalPause = 30 * time.Second       // at least between two renewals of refused tokens
	lookPause    = 250 * time.Millisecond // at least between two looks at the files behind a token
	minSkew      = time.Minute            // a smaller difference of clocks is ignored
)

// token is a credential that was fetched. It is immutable.
type token struct {
	sign    func(now time.Time, req *http.Request, body []byte) error
	expires time.Time // by this machine's clock; zero: never
	renew   time.Time // when the vendor wants it renewed; zero: renewBefore
	secrets []string

	redactor *secret.Redactor // of secrets and those of the token before
	stamps   []secret.Stamp   // of the files when it was fetched
	fetched  time.Time
}

// ending returns the end of a token that must have one. Without one it has ended.
func ending(end time.Time) time.Time {
	if end.IsZero() {
		return time.Unix(0, 0)
	}
	return end
}

// valid reports whether the token can be used.
func (t *token) valid(now time.Time) bool {
	return t != nil && (t.expires.IsZero() || now.Before(t.expires))
}

// local reports whether the token comes from files and the environment alone.
func (t *token) local() bool { return t.expires.IsZero() }

// Credential is the credential of one cloud account. A timer renews it ahead of its end, and
// requests wait for a fetch only if there is no valid token. At most one fetch runs at a time.
type Credential struct {
	vendor vendor
	client *http.Client
	logger *slog.Logger
	now    func() time.Time
	files  []string

	current atomic.Pointer[token]
	looked  atomic.Int64 // when the files were last looked at, in ns
	skew    atomic.Int64 // of the upstream's clock, in ns; 0: none that matters

	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	busy     chan struct{} // closed when the fetch in flight ends; nil: there is none
	err      error         // of the last fetch
	failed   time.Time     // when it failed
	failures int           // in a row
	timer    *time.Timer   // of the next renewal
	refused  time.Time     // when a refused token was last renewed
}

func newCredential(v vendor, client *http.Client, logger *slog.Logger) *Credential {
	c := &Credential{vendor: v, client: client, logger: logger, now: time.Now, files: v.files()}
	c.ctx, c.end = context.WithCancel(context.Background())
	return c
}

// start begins to get the first token.
func (c *Credential) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetchLocked()
}

// Close ends renewal and waits for a fetch in flight. Requests that are open can still be
// signed with the present token.
func (c *Credential) Close() {
	c.end()
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.running.Wait()
}

// Sign signs a request with the present token.
func (c *Credential) Sign(ctx context.Context, req *http.Request, body []byte) error {
	t, now := c.current.Load(), c.now()
	if !t.valid(now) || c.due(t, now) && c.changed(t) {
		var err error
		if t, err = c.refresh(ctx, t); err != nil {
			return err
		}
		now = c.now()
	}
	return t.sign(now.Add(time.Duration(c.skew.Load())), req, body)
}

// due reports whether to look at the files: for each request if they hold the keys themselves,
// and from time to time if a token was issued for them, which stays valid.
func (c *Credential) due(t *token, now time.Time) bool {
	if t.local() {
		return true
	}
	last, at := c.looked.Load(), now.UnixNano()
	return len(c.files) > 0 && at-last >= int64(lookPause) && c.looked.CompareAndSwap(last, at)
}

// changed reports whether a file is not the one that the token was made from.
func (c *Credential) changed(t *token) bool {
	for i, path := range c.files {
		if !t.stamps[i].Same(secret.StampOf(path)) {
			return true
		}
	}
	return false
}

// refresh returns a token that is newer than old. It waits for a fetch, unless old is valid and
// a fetch needs the network. It returns old if old is still valid and no new token is
// available.
func (c *Credential) refresh(ctx context.Context, old *token) (*token, error) {
	c.mu.Lock()
	if t := c.current.Load(); t != old && t.valid(c.now()) {
		c.mu.Unlock()
		return t, nil
	}
	renewing := old.valid(c.now()) && !old.local()
	late := old == nil || c.failed.After(old.expires)                                            // a fetch has failed since there is no token
	if c.busy == nil && c.err != nil && (renewing || late && c.now().Sub(c.failed) < failFast) { // the timer tries again
		err := c.err
		c.mu.Unlock()
		return usable(old, c.now(), err)
	}
	busy := c.fetchLocked()
	c.mu.Unlock()
	if renewing {
		return old, nil
	}
	select {
	case <-busy:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	return usable(c.current.Load(), c.now(), err)
}

// usable returns a token if it is valid, and else the reason why there is none.
func usable(t *token, now time.Time, err error) (*token, error) {
	switch {
	case t.valid(now):
		return t, nil
	case err != nil:
		return nil, err
	}
	return nil, errors.New("the token that was issued has expired")
}

// fetchLocked starts a fetch unless one runs, and returns the channel that its end closes.
func (c *Credential) fetchLocked() chan struct{} {
	if c.busy != nil {
		return c.busy
	}
	busy := make(chan struct{})
	if c.ctx.Err() != nil {
		c.err = errors.New("the credential is not in use any more")
		close(busy)
		return busy
	}
	c.busy = busy
	c.running.Go(func() {
		var t *token
		err := crash.Try(c.logger, func() (err error) {
			t, err = c.fetch()
			return err
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		c.concludeLocked(t, err)
		c.busy = nil
		close(busy)
	})
	return busy
}

// fetch gets a token.
func (c *Credential) fetch() (*token, error) {
	ctx, cancel := context.WithTimeout(c.ctx, fetchTime)
	defer cancel()
	stamps := make([]secret.Stamp, len(c.files))
	for i, path := range c.files {
		stamps[i] = secret.StampOf(path)
	}
	t, err := c.ask(ctx)
	if err != nil {
		return nil, err
	}
	if slices.Contains(t.secrets, "") { // the AWS SDK takes "{}" for keys that never end, that of Azure no token for one
		return nil, errors.New("the issuer's answer has no credential")
	}
	t.stamps, t.fetched = stamps, c.now()
	if !t.valid(t.fetched) {
		return nil, fmt.Errorf("the credential that was issued ended at %s; check the clocks of this machine and of the issuer", t.expires.UTC().Format(time.RFC3339))
	}
	return t, nil
}

// ask fetches a token from the vendor. Some vendors' libraries panic on a malformed answer, such as
// that of Microsoft on "null"; that is a failed fetch, because it must not end the process.
func (c *Credential) ask(ctx context.Context) (t *token, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("the issuer's answer cannot be read: %v", p)
		}
	}()
	return c.vendor.fetch(ctx, c.client)
}

// concludeLocked stores the result of a fetch and sets the timer for the next one.
func (c *Credential) concludeLocked(t *token, err error) {
	before := c.current.Load()
	if err != nil {
		c.failLocked(before, err)
		return
	}
	if c.failures > 0 {
		c.logger.Info("the cloud credential can be renewed again", "failures", c.failures)
	}
	c.err, c.failures = nil, 0
	secrets := t.secrets
	if before != nil {
		secrets = append(secrets[:len(secrets):len(secrets)], before.secrets...)
	}
	t.redactor = secret.NewRedactor(secrets)
	c.current.Store(t)
	if !t.local() {
		now := c.now()
		c.wakeLocked(max(t.renewal().Sub(now), min(renewPause, t.expires.Sub(now)/2), renewSoonest))
	}
}

// failLocked notes a failed fetch. A token that is still valid stays.
func (c *Credential) failLocked(before *token, err error) {
	if c.ctx.Err() != nil {
		c.err = err
		return
	}
	c.err, c.failed = c.describe(err), c.now()
	if c.failures++; c.failures == 1 {
		attributes := []any{"error", c.err.Error()}
		if before.valid(c.now()) && !before.local() {
			attributes = append(attributes, "expires", before.expires)
		}
		c.logger.Warn("the cloud credential could not be renewed", attributes...)
	}
	c.wakeLocked(min(retryFirst<<min(c.failures-1, 10), retryLast))
}

// maxError is the length of an error's text.
const maxError = 400

// hide returns an error whose text has none of the secrets.
func hide(err error, secrets []string) error {
	if text := secret.NewRedactor(secrets).Redact([]byte(err.Error())); string(text) != err.Error() {
		return errors.New(string(text))
	}
	return err
}

// describe returns an error without the secrets of the present token, in one line.
func (c *Credential) describe(err error) error {
	text := strings.Join(strings.Fields(hide(err, c.Secrets()).Error()), " ")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return errors.New(text)
}

// renewal returns when a token is renewed: ahead of its end, and not at the same time at all
// nodes of a cluster. The token ends after it was fetched.
func (t *token) renewal() time.Time {
	if !t.renew.IsZero() {
		return t.renew
	}
	early := min(renewBefore, t.expires.Sub(t.fetched)/4)
	return t.expires.Add(-early + rand.N(early/16+1)) //nolint:gosec // jitter
}

// wakeLocked sets the timer of the next fetch.
func (c *Credential) wakeLocked(after time.Duration) {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(after, c.start)
}

// Renew gets another token after an upstream refused a request, and reports whether the request
// may succeed now. It does so from time to time only: a refusal of a new token has other reasons,
// such as a missing permission.
func (c *Credential) Renew(ctx context.Context, req *http.Request, resp *http.Response) bool {
	if c.learnSkew(resp) {
		return true
	}
	t := c.current.Load()
	if t == nil {
		return false
	}
	if !t.signed(req) { // the token was renewed in the meantime
		return true
	}
	c.mu.Lock()
	if c.busy == nil && c.now().Sub(c.refused) < refusalPause && !c.changed(t) {
		c.mu.Unlock()
		return false
	}
	c.refused = c.now()
	busy := c.fetchLocked()
	c.mu.Unlock()
	select {
	case <-busy:
	case <-ctx.Done():
	}
	next := c.current.Load()
	return next.valid(c.now()) && !next.signed(req)
}

// learnSkew compares the clocks of a refused request. It reports whether the difference matters
// and was not known.
func (c *Credential) learnSkew(resp *http.Response) bool {
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return false
	}
	skew, known := date.Sub(c.now()), time.Duration(c.skew.Load())
	if (skew - known).Abs() < minSkew {
		return false
	}
	c.skew.Store(int64(skew))
	c.logger.Warn("the upstream's clock differs from this machine's; requests are signed with its time", "difference", skew.Round(time.Second))
	return true
}

// signed reports whether a request has this token.
func (t *token) signed(req *http.Request) bool {
	for _, s := range t.secrets {
		for _, name := range []string{"Authorization", "X-Amz-Security-Token"} {
			if strings.Contains(req.Header.Get(name), s) {
				return true
			}
		}
	}
	return false
}

// Secrets returns the secrets of the present token.
func (c *Credential) Secrets() []string {
	if t := c.current.Load(); t != nil {
		return t.secrets
	}
	return nil
}

// Redactor removes the secrets of the present token and the one before it from texts.
func (c *Credential) Redactor() *secret.Redactor {
	if t := c.current.Load(); t != nil {
		return t.redactor
	}
	return nil
}
