package export

import "context"

// Names returns the names of keys by their ids. Those that are not known are left out.
type Names func(ctx context.Context, ids []string) map[string]string

// SetNames sets the names of the keys in a list. The function of returns an item's key and where its name is.
func SetNames[T any](ctx context.Context, names Names, list []T, of func(*T) (key string, name *string)) {
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
