// Package keynames finds keys by their names, and sets the names of keys in what the admin API and its files show.
package keynames

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/similar"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// Keys is the store of keys.
type Keys interface {
	FindKeys(ctx context.Context, f store.KeyFilter, idOrName string) (found []store.KeyName, others []string, err error)
}

// Error says which key is not found, without the name that was sent.
type Error string

func (e Error) Error() string { return string(e) }

// most is the maximum number of names or ids that an error offers.
const most = 3

// Find returns the id of the key with an id or a name, of those that the filter selects. The ledger may have keys that
// the store does not, so a name that is like no other is returned as it is.
func Find(ctx context.Context, keys Keys, f store.KeyFilter, idOrName string) (string, error) {
	found, others, err := keys.FindKeys(ctx, f, idOrName)
	if err != nil {
		return "", err
	}
	if valid := slices.DeleteFunc(slices.Clone(found), func(k store.KeyName) bool { return k.Revoked }); len(valid) > 0 {
		found = valid
	}
	switch len(found) {
	case 0:
		if near := similar.Names(idOrName, others, most); len(near) > 0 {
			return "", Error("no key has this id or name; did you mean " + orList(near) + "?")
		}
		return idOrName, nil
	case 1:
		return found[0].ID, nil
	}
	ids := make([]string, min(len(found), most))
	for i := range ids {
		ids[i] = found[i].ID
	}
	return "", Error(fmt.Sprintf("%d keys have this name; send the id of one, such as %s", len(found), orList(ids)))
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

// Names returns the names of keys by their ids. Those that are not known are left out.
type Names func(ctx context.Context, ids []string) map[string]string

// Set sets the names of the keys in a list. The function of returns an item's key and where its name is.
func Set[T any](ctx context.Context, names Names, list []T, of func(*T) (key string, name *string)) {
	seen := map[string]bool{"": true}
	var ids []string
	for i := range list {
		if key, _ := of(&list[i]); !seen[key] {
			seen[key] = true
			ids = append(ids, key)
		}
	}
	if len(ids) == 0 {
		return
	}
	known := names(ctx, ids)
	for i := range list {
		key, name := of(&list[i])
		*name = known[key]
	}
}
