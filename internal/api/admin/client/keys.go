package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/similar"
)

// spent has the parameter that asks for what keys have spent in the last 30 days, and for their last use.
var spent = url.Values{"spent": {"30d"}}

// Keys returns keys. The parameters are those of the operation list-keys.
func (c *Client) Keys(ctx context.Context, query url.Values) ([]admin.Key, error) {
	return pages(ctx, c, "/keys", query, func(p admin.KeyList) ([]admin.Key, string) { return p.Keys, p.Next })
}

// UsedKey returns the key with an id or a name, with what it has spent in the last 30 days.
func (c *Client) UsedKey(ctx context.Context, idOrName string) (admin.Key, error) {
	k, err := c.Key(ctx, idOrName)
	if err != nil {
		return k, err
	}
	return do[admin.Key](ctx, c, http.MethodGet, keyPath(k.ID, ""), spent, nil)
}

// Key returns the key with an id or a name. If several keys have the name, it returns the one that is not
// revoked, or an error with the ids.
func (c *Client) Key(ctx context.Context, idOrName string) (admin.Key, error) {
	k, err := do[admin.Key](ctx, c, http.MethodGet, keyPath(idOrName, ""), nil, nil)
	if !isCode(err, "not_found") && !isCode(err, "invalid") { // no id
		return k, err
	}
	named, err := c.Named(ctx, idOrName)
	if err != nil {
		return k, err
	}
	if valid := slices.DeleteFunc(slices.Clone(named), isRevoked); len(valid) > 0 {
		named = valid
	}
	switch len(named) {
	case 0:
		return k, c.noKey(ctx, idOrName)
	case 1:
		return named[0], nil
	}
	ids := make([]string, len(named))
	for i, n := range named {
		ids[i] = n.ID
	}
	return k, fmt.Errorf("%d keys have the name %q; write an id: %s", len(ids), idOrName, strings.Join(ids, ", "))
}

// noKey returns the error of a name that no key has, with a similar one of the first keys.
func (c *Client) noKey(ctx context.Context, name string) error {
	first, err := do[admin.KeyList](ctx, c, http.MethodGet, "/keys", url.Values{"limit": {"1000"}}, nil)
	if err != nil {
		return err
	}
	names := make([]string, len(first.Keys))
	for i := range first.Keys {
		names[i] = first.Keys[i].Name
	}
	if near := similar.Name(name, names); near != "" {
		return fmt.Errorf("there is no key with the id or name %q; did you mean %q?", name, plain.Line(near))
	}
	return fmt.Errorf("there is no key with the id or name %q; 'isogloss keys list' shows them", name)
}

// Named returns the keys with a name.
func (c *Client) Named(ctx context.Context, name string) ([]admin.Key, error) {
	all, err := c.Keys(ctx, url.Values{"name": {name}})
	if isCode(err, "invalid") { // no key can have it
		return nil, nil
	}
	return all, err
}

func isRevoked(k admin.Key) bool { return !k.Revoked.IsZero() }

// CreateKey creates a key, and its organisation and team if they do not exist.
func (c *Client) CreateKey(ctx context.Context, body admin.KeyBody) (admin.KeyMade, error) {
	if err := c.ensure(ctx, body.Org, body.Team); err != nil {
		return admin.KeyMade{}, err
	}
	return do[admin.KeyMade](ctx, c, http.MethodPost, "/keys", nil, body)
}

// UpdateKey changes a key, and creates its new team if it does not exist.
func (c *Client) UpdateKey(ctx context.Context, k admin.Key, change admin.KeyChange) (admin.Key, error) {
	if change.Team != nil && !isRevoked(k) {
		if err := c.ensure(ctx, k.Org, *change.Team); err != nil {
			return k, err
		}
	}
	return do[admin.Key](ctx, c, http.MethodPatch, keyPath(k.ID, ""), nil, change)
}

// RevokeKey revokes a key permanently. A revoked key stays as it is.
func (c *Client) RevokeKey(ctx context.Context, idOrName string) (admin.Key, error) {
	k, err := c.Key(ctx, idOrName)
	if err != nil || isRevoked(k) {
		return k, err
	}
	return do[admin.Key](ctx, c, http.MethodPost, keyPath(k.ID, "/revoke"), nil, nil)
}

// RotateKey gives a key a new secret. The old one stays valid for a while.
func (c *Client) RotateKey(ctx context.Context, idOrName string, overlap time.Duration) (admin.KeyMade, error) {
	k, err := c.Key(ctx, idOrName)
	if err != nil {
		return admin.KeyMade{}, err
	}
	return do[admin.KeyMade](ctx, c, http.MethodPost, keyPath(k.ID, "/rotate"), nil, admin.Rotation{Overlap: int64(overlap / time.Second)})
}

// KeyUse returns a key's current use of its limits.
func (c *Client) KeyUse(ctx context.Context, id string) (admin.UseView, error) {
	return do[admin.UseView](ctx, c, http.MethodGet, keyPath(id, "/limits"), nil, nil)
}

// Usage returns sums of the usage of requests. The parameters are those of the operation get-usage.
func (c *Client) Usage(ctx context.Context, query url.Values) (admin.UsageView, error) {
	return do[admin.UsageView](ctx, c, http.MethodGet, "/usage", query, nil)
}

// Refusals counts refused requests by key and reason. The parameters are those of the operation list-refusals.
func (c *Client) Refusals(ctx context.Context, query url.Values) (admin.RefusalList, error) {
	return do[admin.RefusalList](ctx, c, http.MethodGet, "/refusals", query, nil)
}

func keyPath(id, rest string) string { return "/keys/" + url.PathEscape(id) + rest }
