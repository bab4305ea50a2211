package signin

import (
	"context"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/identity"
)

// revokeEvery is how often a node asks for the tokens that other nodes have revoked.
const revokeEvery = time.Second

// WatchRevoked keeps a set up to date with the tokens that were revoked here and on other nodes,
// until ctx ends. While the store is down the set stays as it is.
func WatchRevoked(ctx context.Context, from Store, set *identity.Revoked) {
	tick := time.NewTicker(revokeEvery)
	defer tick.Stop()
	for {
		if digests, err := from.RevokedTokens(ctx, time.Now()); err == nil {
			set.Set(digests)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// revokeBearer makes all nodes refuse a token, if it is one that they accept. Others are forgotten,
// so that nobody can fill the store. It reports whether the token is one that they accept.
func (s *Server) revokeBearer(r *http.Request, token string) (known bool, err error) {
	p, fault := s.o.People.Admit(r, token)
	if fault != nil {
		return false, nil //nolint:nilerr // such a token opens nothing
	}
	now := time.Now()
	added, err := s.o.Store.RevokeToken(r.Context(), p.Revocation, p.Expires.Add(time.Hour), now)
	if err != nil {
		return true, err
	}
	if added {
		s.audit(r, p, "sign-out", "device")
	}
	digests, err := s.o.Store.RevokedTokens(r.Context(), now)
	if err == nil {
		s.o.Revoked.Set(digests)
	}
	return true, err
}
