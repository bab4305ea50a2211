package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// fillerSQL adds keys that nobody has the secret of.
const fillerSQL = `INSERT INTO keys (id, seq, revision, name, org, team, role, created, expires, revoked, models, endpoints, networks, criticality,
	pepper, digest, until, old_pepper, old_digest, old_until, limit_requests, limit_tokens, limit_concurrency, budget, budget_window)
	SELECT 'filler' || (r.keys + n), r.keys + n, r.revision + n, '', 'default', NULL, '', 0, 0, 0, '[]', '[]', '[]', 'normal',
	1, decode(repeat('00', 32), 'hex'), 0, 0, NULL, 0, 0, 0, 0, 0, 0 FROM generate_series(1, %[1]d) n, revision r;
	UPDATE revision SET revision = revision + %[1]d, keys = keys + %[1]d;`

const fillerPage = 50_000

// runRestoredDump restores PostgreSQL from a dump under running gateways, and changes an organisation
// with most of the keys.
func runRestoredDump(ctx context.Context, s *stage) {
	fillers := of(s, 1_000_000, 5000)
	kept, later := s.usedKey(ctx, "kept", cheap, limits{}), s.usedKey(ctx, "revoked-later", cheap, limits{})
	for left := fillers; left > 0; left -= fillerPage {
		testrig.Must(s.query(ctx, fmt.Sprintf(fillerSQL, min(left, fillerPage))))
	}
	dump := filepath.Join(s.dir, "dump.sql")
	testrig.Must(output(ctx, "pg_dump", "-f", dump, s.postgres.URL))
	// Nodes that have looked the key up have not read its change yet when the store is restored.
	lost := s.usedKey(ctx, "made-after-the-dump", cheap, limits{})
	// pg_dump --clean cannot drop the constraints of partitions.
	testrig.Must(output(ctx, "psql", "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-c", "DROP SCHEMA public CASCADE", "-c", "CREATE SCHEMA public", "-f", dump, s.postgres.URL))
	restored, cpu := time.Now(), testrig.ReadCPUTime()
	took, late := s.refusedEverywhere(ctx, lost, http.StatusUnauthorized)
	s.Figures("restore/lost-key", fmt.Sprintf("a key that the dump does not have is refused everywhere after %v; %d keys in the store", took.Round(10*time.Millisecond), fillers), restored, cpu, []string{goal("it", took, revoked)}, late)

	began := time.Now()
	s.revoke(ctx, later)
	took, late = s.refusedEverywhere(ctx, later, http.StatusUnauthorized)
	s.Figures("restore/revoked-key", fmt.Sprintf("a key that is revoked afterwards is refused everywhere after %v", took.Round(10*time.Millisecond)), began, cpu, []string{goal("it", took, revoked)}, late)

	// A change of the organisation that has all keys must not delay other changes.
	third := s.usedKey(ctx, "third", cheap, limits{})
	testrig.Must(s.nodes[0].Command(ctx, "keys", "orgs", "update", "-c", s.nodes[0].Config, "default", "--requests", "1000000"))
	began = time.Now()
	s.revoke(ctx, third)
	took, late = s.refusedEverywhere(ctx, third, http.StatusUnauthorized)
	wrong := []string{late}
	for i := range s.nodes {
		if e := s.spend(ctx, i, kept, 1); !e.good() {
			wrong = append(wrong, e.String())
		}
	}
	s.Figures("restore/large-organisation", fmt.Sprintf("after a change of an organisation with %d keys a revocation takes %v", fillers, took.Round(10*time.Millisecond)), began, cpu, []string{goal("it", took, revoked)}, wrong...)
}

// refusedEverywhere waits until all nodes refuse a key, each of them soon.
func (s *stage) refusedEverywhere(ctx context.Context, k key, status int) (slowest time.Duration, problem string) {
	took, late := make([]time.Duration, len(s.nodes)), make([]string, len(s.nodes))
	testrig.Each(len(s.nodes), len(s.nodes), func(node int) {
		took[node], late[node] = s.soon(ctx, node, of(s, revoked, 10*revoked), fmt.Sprintf("node %d still accepts the key", node+1), func() bool { return s.spend(ctx, node, k, 1).status == status })
	})
	return slices.Max(took), strings.Join(slices.DeleteFunc(late, func(s string) bool { return s == "" }), "; ")
}
