package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/similar"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// maxSimilar is the maximum number of names that an error offers.
const maxSimilar = 3

// findKey returns the id of the key that a filter of the ledger names by its id or name. The ledger may have keys that
// the store does not, so a name that is like no other stays as it is.
func (s *server) findKey(ctx context.Context, c *call, org, idOrName string) (string, error) {
	if idOrName == "" {
		return "", nil
	}
	f := store.KeyFilter{Org: org, Who: c.visible()}
	found, others, err := s.Keys.FindKeys(ctx, f, idOrName)
	if err != nil {
		return "", unavailable(keyStoreName, err)
	}
	if valid := slices.DeleteFunc(slices.Clone(found), func(k store.KeyName) bool { return k.Revoked }); len(valid) > 0 {
		found = valid
	}
	switch len(found) {
	case 0:
		if near := similar.Names(idOrName, others, maxSimilar); len(near) > 0 {
			return "", invalid("query.key", "no key has this id or name; did you mean %s?", orList(near))
		}
		return idOrName, nil
	case 1:
		return found[0].ID, nil
	}
	ids := make([]string, min(len(found), maxSimilar))
	for i := range ids {
		ids[i] = found[i].ID
	}
	return "", invalid("query.key", "%d keys have this name; send the id of one, such as %s", len(found), orList(ids))
}

// orList returns names as "a", "b" or "c".
func orList(names []string) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = fmt.Sprintf("%q", plain.Line(n))
	}
	if last := len(texts) - 1; last > 0 {
		return strings.Join(texts[:last], ", ") + " or " + texts[last]
	}
	return texts[0]
}

// keyNames returns the names of keys by their ids. Names are an addition to what a caller reads: without the store of
// keys there are none.
func (s *server) keyNames(ctx context.Context, ids []string) map[string]string {
	names, err := s.Keys.KeyNames(ctx, ids)
	if err != nil {
		s.Logger.WarnContext(ctx, "names of keys not available", "error", err)
	}
	return names
}

// spentIn asks for the use of keys.
type spentIn struct {
	Spent string `query:"spent" enum:"30d" doc:"With what each key has spent in this time, and the hour of its last request. Needs a role that may use get-usage."`
}

// spentTime is the only value of spent.
const spentTime = 30 * 24 * time.Hour

// addUse adds what keys have spent to their views, if it is asked for. One question has all of them.
func (s *server) addUse(ctx context.Context, c *call, in spentIn, keys []keyView) error {
	if in.Spent == "" {
		return nil
	}
	if p := Permit(c.operator, "get-usage"); p != nil {
		return p
	}
	ids := make([]string, len(keys))
	for i := range keys {
		ids[i] = keys[i].ID
	}
	uses, err := s.Keys.KeyUses(ctx, ids, s.Now().Add(-spentTime))
	if err != nil {
		return unavailable(ledgerName, err)
	}
	for i := range keys {
		u := uses[keys[i].ID]
		keys[i].Spent, keys[i].LastUsed = u.Spent.Decimal(), u.Last
	}
	return nil
}
