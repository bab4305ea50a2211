package access

import (
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Clients are the keys of a store together with those of a configuration file, which
// may change while the store's go on.
type Clients struct {
	directory *Directory
	static    *Keys
}

// With joins the directory with the keys of a configuration file.
func (d *Directory) With(static *Keys) *Clients { return &Clients{d, static} }

// Check says which client sends a request, or why it is not admitted. Keys of the
// store have a form of their own, so that nothing else is looked up.
func (c *Clients) Check(r *http.Request) (Caller, *llm.Error) {
	if _, _, minted := Parse(presented(r)); !minted && c.static != nil && len(c.static.keys) > 0 { // an empty set would let everybody in
		if caller, err := c.static.Check(r); err == nil {
			return caller, nil
		}
	}
	return c.directory.Check(r)
}

// SeesWithin reports whether a caller has a model whose name begins so.
func (c Caller) SeesWithin(begin string) bool {
	if c.everything || c.scope == nil {
		return c.everything
	}
	for _, m := range c.scope.Models {
		if name, open := strings.CutSuffix(m, "*"); strings.HasPrefix(name, begin) || open && strings.HasPrefix(begin, name) {
			return true
		}
	}
	return false
}
