package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/similar"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
)

// Warnings returns what is probably a mistake in a new or changed key: models that the
// configuration does not have, and a name that another key has.
func (k *Keyring) Warnings(ctx context.Context, id, name string, models []string) ([]string, error) {
	warnings := k.unknownModels(models)
	others, err := k.Named(ctx, name)
	for _, r := range others {
		if r.ID != id && r.Revoked.IsZero() {
			return append(warnings, fmt.Sprintf("the key %s has the name %q too; commands that take a name need the id then", r.ID, name)), err
		}
	}
	return warnings, err
}

// readModels reads the models of a configuration, unless it has mistakes. With discovery every name may be
// that of a worker.
func (k *Keyring) readModels(p *config.Place) {
	if p.Wrong != nil || p.Discover.On() {
		return
	}
	k.models = route.New(newRoutes(p.Models, pools{}))
	for _, m := range p.Models {
		k.known = append(k.known, m.Name)
	}
}

// unknownModels returns a warning for each model that no request could use.
func (k *Keyring) unknownModels(models []string) []string {
	if k.models == nil {
		return nil
	}
	var warnings []string
	for _, m := range models {
		if coversAny(k.models, m) {
			continue
		}
		text := fmt.Sprintf("the configuration has no model %q", m)
		if near := similar.Name(m, k.known); near != "" {
			text += fmt.Sprintf("; did you mean %q?", near)
		}
		warnings = append(warnings, text)
	}
	return warnings
}

// coversAny reports whether a name or pattern of a key's models covers a model.
func coversAny(routes *route.Table, scope string) bool {
	prefix, open := strings.CutSuffix(scope, "*")
	if !open {
		_, ok := routes.Find(scope)
		return ok
	}
	for _, r := range routes.Routes() {
		begin, pattern := strings.CutSuffix(r.Name, "*")
		if strings.HasPrefix(r.Name, prefix) || pattern && strings.HasPrefix(prefix, begin) {
			return true
		}
	}
	return false
}
