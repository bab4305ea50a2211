package access

import (
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Clients combines the credentials that a gateway accepts: tokens of identity providers, keys of a
// configuration file, which may be reloaded, and keys of a store.
type Clients struct {
	directory *Directory // nil: no store
	static    *Keys
	tokens    Tokens // nil: none
}

// NewClients returns the combination. directory and tokens may be nil.
func NewClients(static *Keys, directory *Directory, tokens Tokens) *Clients {
	return &Clients{directory, static, tokens}
}

// Check authenticates a client. Tokens and keys of the store have formats of their own, so other
// keys are not looked up in the store.
func (c *Clients) Check(r *http.Request) (Caller, *llm.Error) {
	key := agents.Key(r)
	if c.tokens != nil && isToken(key) {
		return c.checkToken(r, key)
	}
	if _, _, minted := Parse(key); !minted && len(c.static.keys) > 0 { // an empty set accepts everybody
		if caller, ok := c.static.find(key); ok {
			return caller, nil
		}
	}
	if c.directory != nil {
		return c.directory.Check(r)
	}
	if c.tokens != nil {
		return Caller{}, c.static.wrongKeys.reject(r, key, time.Now())
	}
	return c.static.Check(r)
}

// wrongKeys returns the counts of wrong credentials.
func (c *Clients) wrongKeys() *Failures {
	if c.directory != nil {
		return c.directory.wrongKeys
	}
	return c.static.wrongKeys
}
