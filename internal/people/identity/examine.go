package identity

import (
	"context"
	"errors"
	"time"
)

// Facts is what an issuer has.
type Facts struct {
	Keys    int // that tokens may be signed with
	Latency time.Duration
}

// Examine fetches the keys of an issuer and returns its facts. Tokens are still verified with the keys that are known.
func (v *Verifier) Examine(ctx context.Context, url string) (f Facts, err error) {
	i := v.issuers[url]
	if i == nil {
		return f, errors.New("the issuer is not configured")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	begun := time.Now()
	keys, err := i.keys.read(ctx)
	return Facts{len(keys), time.Since(begun)}, err
}
