package store

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestForgedKeys changes rows of keys behind the gateway's back. Such a key is blocked and
// small, and the others are read as before.
func TestForgedKeys(t *testing.T) {
	forged := map[string]string{
		"json":     `models = '[secret-canary'`,
		"shape":    `models = '{"a":1}'`,
		"numbers":  `endpoints = '[1,2]'`,
		"networks": `networks = '["10.0.0.0/99"]'`,
		"large":    `models = '["' || LARGE || '"]'`,
		"name":     `name = LARGE, criticality = LARGE`,
		"role":     `role = LARGE`,
		"digest":   `digest = CAST(LARGE AS BYTEA)`,
	}
	each(t, func(t *testing.T, url string) {
		var log bytes.Buffer
		s := opened(t, url, Options{Migrate: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for name := range forged {
			no(t, s.CreateKey(t.Context(), sampleKey(name)))
		}
		no(t, s.CreateKey(t.Context(), sampleKey("good")))
		large := `repeat('x', 20000000)`
		if strings.HasPrefix(url, "sqlite:") {
			large = `printf('%.*c', 20000000, 'x')`
		}
		for name, set := range forged {
			no(t, execute(t.Context(), s, `UPDATE keys SET `+strings.ReplaceAll(set, "LARGE", large)+` WHERE id = '`+name+`'`))
		}
		records, err := s.KeysAfter(t.Context(), "", 1000)
		no(t, err)
		if len(records) != len(forged)+1 {
			t.Fatalf("%d keys", len(records))
		}
		for _, r := range records {
			usable := !r.Blocked() && len(r.Digests) > 0
			if kept := r.ID == "good" || r.ID == "name" || r.ID == "role"; usable != kept {
				t.Errorf("%s: blocked is %t, with %d digests", r.ID, r.Blocked(), len(r.Digests))
			}
			n := len(r.Name) + len(r.Role) + len(r.Criticality)
			for _, m := range r.Models {
				n += len(m)
			}
			if n > 2000 {
				t.Errorf("%s: %d bytes are kept", r.ID, n)
			}
		}
		if text := log.String(); strings.Contains(text, "secret-canary") || !strings.Contains(text, "key=json") {
			t.Errorf("the log has %s", text)
		}
	})
}

// TestForgedSums stores negative costs: they do not raise a budget.
func TestForgedSums(t *testing.T) {
	s := opened(t, database(t), Options{Migrate: true})
	no(t, s.CreateKey(t.Context(), sampleKey("k")))
	for _, query := range []string{`ALTER TABLE spent DROP CONSTRAINT spent_cost_check`, `INSERT INTO spent VALUES ('key:k', 500000, 1, 0, -9000000000000)`} {
		no(t, execute(t.Context(), s, query))
	}
	if sum, err := spentSince(t.Context(), s, "key:k", time.Time{}); err != nil || sum != 0 {
		t.Errorf("spent %d, %v", sum, err)
	}
}

// TestNegativeLimits checks that a key with a negative limit, which would be none, is blocked.
func TestNegativeLimits(t *testing.T) {
	s := opened(t, database(t), Options{Migrate: true})
	no(t, s.CreateKey(t.Context(), sampleKey("k")))
	for _, query := range []string{`ALTER TABLE keys DROP CONSTRAINT keys_budget_check`, `UPDATE keys SET budget = -1`} {
		no(t, execute(t.Context(), s, query))
	}
	if r, err := s.Key(t.Context(), "k"); err != nil || !r.Blocked() {
		t.Errorf("%+v, %v", r, err)
	}
}
