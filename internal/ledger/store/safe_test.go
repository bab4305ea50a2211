package store

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// attacks are texts that would mean something in a query.
var attacks = []string{
	`'; DROP TABLE keys; --`, `" OR ""="`, `$1`, `$2 OR 1=1`, `?`, `?1`, `\`, `\'; SELECT 1; --`, `%`, `_`, `' UNION SELECT * FROM keys --`, "k\u2019s", `:id @id`, `{"a":1}`,
}

// TestAttacksStayData checks that SQL in ids, names, filters and rows is stored as text.
func TestAttacksStayData(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		for i, text := range attacks {
			no(t, s.CreateTenant(ctx, Tenant{Org: text, Name: text}))
			no(t, s.CreateTenant(ctx, Tenant{Org: text, Team: text, Name: text}))
			k := sampleKey(text)
			k.Name, k.Org, k.Team, k.Models, k.Criticality = text, text, text, []string{text}, text
			no(t, s.CreateKey(ctx, k))
			r := row("ff", i)
			r.Key, r.Org, r.Team, r.Model, r.Target, r.Node = text, text, text, text, text, text
			r.Labels = usage.Labels{User: text, Tags: []usage.Tag{{Key: "team", Value: text}}}
			no(t, put(ctx, s, []usage.Row{r}))
			no(t, s.Audit(ctx, Entry{At: noon, Actor: text, Action: text, Detail: text}))
		}
		for i, text := range attacks {
			k, err := s.Key(ctx, text)
			if err != nil || k.ID != text || k.Name != text || k.Org != text || k.Team != text || !slices.Equal(k.Models, []string{text}) {
				t.Errorf("key %q: %+v, %v", text, k, err)
			}
			if list, err := s.Keys(ctx, KeyFilter{Org: text, Team: text}, "", 0); err != nil || len(list) != 1 {
				t.Errorf("keys of %q: %d, %v", text, len(list), err)
			}
			if got, err := spentSince(ctx, s, "team:"+text+"/"+text, noon); err != nil || got != usage.Money(i) {
				t.Errorf("spent by %q: %d, %v", text, got, err)
			}
			if list, err := s.Rows(ctx, RowQuery{Org: text, Model: text}); err != nil || len(list) != 1 || list[0].Target != text {
				t.Errorf("rows of %q: %+v, %v", text, list, err)
			}
			if list, err := s.Rows(ctx, RowQuery{User: text, Tag: usage.Tag{Key: "team", Value: text}}); err != nil || len(list) != 1 || list[0].User != text {
				t.Errorf("rows of the user %q: %+v, %v", text, list, err)
			}
			if sums, err := s.Usage(ctx, UsageQuery{Tag: usage.Tag{Key: "team", Value: text}, GroupBy: []Group{ByTag("team"), ByOrg}}); err != nil || len(sums) != 1 || sums[0].Label != text || sums[0].Org != text {
				t.Errorf("usage of the tag %q: %+v, %v", text, sums, err)
			}
			if list, err := s.AuditLog(ctx, AuditQuery{Actor: text}); err != nil || len(list) != 1 || list[0].Detail != text {
				t.Errorf("log of %q: %+v, %v", text, list, err)
			}
		}
		for _, text := range []string{"a\x00b", "\xff"} {
			var own Error
			if _, err := s.Keys(ctx, KeyFilter{Org: text}, "", 0); !errors.As(err, &own) {
				t.Errorf("filter %q: %v", text, err)
			}
			if _, err := s.Tenant(ctx, text, ""); !errors.As(err, &own) {
				t.Errorf("organisation %q: %v", text, err)
			}
		}
	})
}

// TestDumpHasNoSecret checks that neither the database nor the log contains secrets of keys, the
// pepper or the database password.
func TestDumpHasNoSecret(t *testing.T) {
	const secret, pepper, password = "canary7Qk2Zs8vTn4Wb6Yc1Xd3Re5Fg9Hj0LmPqRs", "canaryPepper5521", "canaryPassword99"
	each(t, func(t *testing.T, url string) {
		var log bytes.Buffer
		options := Options{Migrate: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		s, err := Open(t.Context(), strings.Replace(url, "postgres@", "postgres:"+password+"@", 1), options)
		no(t, err)
		digest := func(secret string) access.Digest {
			mac := hmac.New(sha256.New, []byte(pepper))
			mac.Write([]byte(secret))
			return access.Digest{Pepper: 1, Sum: [sha256.Size]byte(mac.Sum(nil))}
		}
		k := sampleKey("k1")
		k.Digests[0] = digest(secret)
		no(t, s.CreateKey(t.Context(), k))
		_, err = s.RotateKey(t.Context(), "k1", digest(secret+"2"), noon)
		no(t, err)
		no(t, put(t.Context(), s, rows("gg", 3)))
		no(t, s.Audit(t.Context(), Entry{At: noon, Actor: "op", Action: "keys.create", Object: "k1"}))
		dump := dumpOf(t, url)
		no(t, s.Close())
		if !bytes.Contains(dump, []byte("laptop of k1")) || !bytes.Contains(dump, []byte("keys.create")) || log.Len() == 0 {
			t.Fatalf("the dump of %d bytes is not one, or the log of %d", len(dump), log.Len())
		}
		plain := sha256.Sum256([]byte(secret)) // a digest without the pepper could be tried
		for _, canary := range []string{"canary", string(plain[:]), hex.EncodeToString(plain[:]), hex.EncodeToString([]byte(secret))} {
			if bytes.Contains(dump, []byte(canary)) || bytes.Contains(log.Bytes(), []byte(canary)) {
				t.Errorf("%q is in the dump or in the log", canary)
			}
		}
	})
}

// dumpOf returns everything on disk, or the output of pg_dump.
func dumpOf(t *testing.T, url string) (dump []byte) {
	t.Helper()
	if path, file := strings.CutPrefix(url, "sqlite:"); file {
		for _, suffix := range []string{"", "-wal"} {
			b, err := os.ReadFile(path + suffix)
			no(t, err)
			dump = append(dump, b...)
		}
		return dump
	}
	tools, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
	if len(tools) == 0 {
		tools = []string{"pg_dump"}
	}
	dump, err := exec.Command(slices.Max(tools), "-d", url).Output()
	no(t, err)
	return dump
}

// TestGrants checks that a gateway needs only the grants in docs/operations/upgrade.md, and cannot change what was
// written.
func TestGrants(t *testing.T) {
	url := database(t)
	owner := opened(t, url, Options{Migrate: true})
	empty(t, owner)
	text, err := os.ReadFile("../../../docs/operations/upgrade.md")
	no(t, err)
	_, after, _ := strings.Cut(string(text), "```sql\n")
	grants, _, _ := strings.Cut(after, "```")
	if strings.Count(grants, "GRANT") < 3 {
		t.Fatal("upgrade.md has no grants")
	}
	for statement := range strings.SplitSeq(strings.TrimSpace(grants), "\n") {
		no(t, execute(bg(), owner, statement))
	}
	s := opened(t, strings.Replace(url, "postgres@", "gateway@", 1), Options{})
	no(t, s.CreateTenant(bg(), Tenant{Org: "default", Team: "blue"}))
	no(t, s.CreateKey(bg(), sampleKey("k1")))
	_, err = s.UpdateTenant(bg(), "default", "", func(o *Tenant) error { o.Limit.Requests = 1; return nil })
	no(t, err)
	_, err = s.RevokeKey(bg(), "k1", noon)
	no(t, err)
	_, err = s.SavePerson(bg(), personIn("default", "ann", "n", false))
	no(t, err)
	putUser(t, s, "u1", "", "n", false, 0)
	if errs := callAll(s, 0); !allFail(errs) {
		t.Errorf("calls succeed after their deadline: %v", errs)
	}
	back(t, s)
	tagged := labelled("gr", 9)
	no(t, put(bg(), s, tagged[:5]))
	no(t, put(bg(), s, tagged[5:]))
	if got, err := s.Rows(bg(), RowQuery{Tag: usage.Tag{Key: "team", Value: "t1"}, Limit: 9}); err != nil || len(got) == 0 {
		t.Error(got, err)
	}
	_, err = s.Usage(bg(), UsageQuery{GroupBy: []Group{ByTag("team")}})
	no(t, err)
	no(t, s.Audit(bg(), Entry{At: noon, Actor: "op"}))
	if v, err := s.VerifyAudit(bg()); err != nil || v.Entries != 2 {
		t.Error(v, err)
	}
	for _, statement := range []string{
		`DELETE FROM keys`, `DELETE FROM requests`, `UPDATE requests SET cost = 0`, `UPDATE labels SET value = 'x'`, `DELETE FROM label_values`, `UPDATE audit SET actor = 'x'`, `DELETE FROM audit`,
		`DROP TABLE audit`, `INSERT INTO schema_steps VALUES (9, 'x', 0)`, `CREATE TABLE x (y TEXT)`,
	} {
		if err := execute(bg(), s, statement); err == nil {
			t.Errorf("a gateway may %s", statement)
		}
	}
}
