package access

import (
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/agents"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Clients combines the keys of a store with those of a configuration file, which may be reloaded.
type Clients struct {
	directory *Directory
	static    *Keys
}

// With combines the directory with the keys of a configuration file.
func (d *Directory) With(static *Keys) *Clients { return &Clients{d, static} }

// Check authenticates a client. Keys of the store have their own format, so other keys are not
// looked up in the store.
func (c *Clients) Check(r *http.Request) (Caller, *llm.Error) {
	if _, _, minted := Parse(agents.Key(r)); !minted && c.static != nil && len(c.static.keys) > 0 { // an empty set accepts everybody
		if caller, ok := c.static.find(agents.Key(r)); ok {
			return caller, nil
		}
	}
	return c.directory.Check(r)
}
