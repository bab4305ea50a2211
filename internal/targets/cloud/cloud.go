// Package cloud holds the credentials of AWS, Google Cloud and Azure. It gets them with the
// vendors' libraries, renews them before they end, and signs requests with them. It starts no
// program.
package cloud

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// vendor gets the credential of one cloud.
type vendor interface {
	// fetch gets a new token. It reads environment and files again and uses no cache.
	fetch(ctx context.Context, client *http.Client) (*token, error)
	// files lists the files that the credential is read from. A change of one leads to a new
	// token.
	files() []string
	// check reports settings and files that cannot be used. It sends nothing.
	check() error
}

func newVendor(c provider.Cloud) vendor {
	switch c := c.(type) {
	case *provider.AWS:
		return &awsVendor{c}
	case *provider.Google:
		return &googleVendor{c}
	case *provider.Azure:
		return &azureVendor{c}
	}
	panic(fmt.Sprintf("cloud: %T is not known", c))
}

// Check reports settings and files of a credential that cannot be used, with what to do about
// it. It sends nothing and starts nothing.
func Check(c provider.Cloud) error { return newVendor(c).check() }

// Pool holds the credentials of a configuration. Providers with the same settings share one,
// and a credential stays when the configuration is loaded again.
type Pool struct {
	logger *slog.Logger
	client *http.Client

	mu   sync.Mutex
	held map[string]*Credential // by fingerprint
}

// NewPool returns a pool without credentials.
func NewPool(logger *slog.Logger) *Pool {
	return &Pool{logger: logger, client: newClient(), held: map[string]*Credential{}}
}

// Use binds the providers of a configuration to their credentials, starts to get those, and closes
// the ones that no provider needs any more.
func (p *Pool) Use(providers []*provider.Provider) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := map[string]*Credential{}
	for _, one := range providers {
		if one.Cloud == nil {
			one.Bind(nil)
			continue
		}
		id := one.Cloud.Fingerprint()
		if used[id] == nil {
			used[id] = p.held[id]
		}
		if used[id] == nil {
			used[id] = newCredential(newVendor(one.Cloud), p.client, p.logger.With("provider", one.Name))
			used[id].start()
		}
		one.Bind(used[id])
	}
	for id, c := range p.held {
		if used[id] == nil {
			c.Close()
		}
	}
	p.held = used
}

// Close ends the renewal of all credentials.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.held {
		c.Close()
	}
	p.client.CloseIdleConnections()
}
