package store

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestAuditTexts checks that the texts of an entry are of one line that terminals can show, whoever wrote it.
func TestAuditTexts(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		no(t, s.Audit(bg(), Entry{At: noon, Actor: "a\n", Org: "o\x1b[2J", Object: "/\u202e\xff", Detail: "allowed\r\nforged"}))
		page, err := s.AuditLog(bg(), AuditQuery{Limit: 1})
		no(t, err)
		if e := page[0]; e.Actor != "a\ufffd" || e.Org != "o\ufffd[2J" || e.Object != "/\ufffd\ufffd" || e.Detail != "allowed\ufffd\ufffdforged" {
			t.Errorf("%+v", e)
		}
		if v, err := s.VerifyAudit(bg()); err != nil || v != (Verdict{Entries: 1}) {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// TestAudit checks that entries of two nodes form one chain, and that every change of it is
// detected.
func TestAudit(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		nodes := []*Store{open(), open()}
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := range 10 {
					e := Entry{At: noon, Actor: fmt.Sprint("op", w), Org: "default", Address: "10.0.0.1", Action: "keys.create", Object: fmt.Sprint(i), Detail: strings.Repeat("é", 4000)}
					if err := nodes[w%2].Audit(bg(), e); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		s := nodes[0]
		verdict := func(want Verdict, after string) {
			t.Helper()
			if got, err := s.VerifyAudit(bg()); err != nil || got != want {
				t.Errorf("%s: %+v, %v; want %+v", after, got, err, want)
			}
		}
		verdict(Verdict{Entries: 40}, "untouched")
		page, err := s.AuditLog(bg(), AuditQuery{Actor: "op1", Limit: 4})
		no(t, err)
		rest, err := s.AuditLog(bg(), AuditQuery{Actor: "op1", Before: page[3].N})
		no(t, err)
		if len(page) != 4 || len(rest) != 6 || page[0].N < page[1].N || !page[0].At.Equal(noon) || len(page[0].Detail) != maxDetail {
			t.Errorf("%d and %d entries: %+v", len(page), len(rest), page)
		}
		for _, c := range []struct {
			harm, undo string
			want       Verdict
		}{
			{`UPDATE audit SET actor = 'x' || actor WHERE n = 17`, `UPDATE audit SET actor = substr(actor, 2) WHERE n = 17`, Verdict{16, 17}},
			{`UPDATE audit SET at = at + 1 WHERE n = 40`, `UPDATE audit SET at = at - 1 WHERE n = 40`, Verdict{39, 40}},
			{`UPDATE audit SET n = 41 WHERE n = 5`, `UPDATE audit SET n = 5 WHERE n = 41`, Verdict{4, 5}},
			{`UPDATE audit_head SET n = 39`, `UPDATE audit_head SET n = 40`, Verdict{38, 39}},
			{`UPDATE audit_head SET n = 41`, `UPDATE audit_head SET n = 40`, Verdict{40, 41}},
			{`DELETE FROM audit WHERE n > 30`, ``, Verdict{30, 31}},
			{`DELETE FROM audit`, ``, Verdict{0, 1}},
		} {
			for _, statement := range []string{c.harm, c.undo} {
				if statement == "" {
					continue
				}
				no(t, execute(bg(), s, statement))
				if statement == c.harm {
					verdict(c.want, statement)
				}
			}
		}
	})
}
