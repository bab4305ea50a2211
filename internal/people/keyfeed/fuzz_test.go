package keyfeed

import (
	"bytes"
	"encoding/gob"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// FuzzPage checks that no text opens as a page without the secret, and that whatever was sealed with it is an error or a page that
// any node can go on from: each of its cursors leads to its end, and the next page has its bounds.
func FuzzPage(f *testing.F) {
	encode := func(p *page) []byte {
		var text bytes.Buffer
		if err := gob.NewEncoder(&text).Encode(p); err != nil {
			f.Fatal(err)
		}
		return text.Bytes()
	}
	at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	cursor := func(n int64) access.Cursor { return access.Cursor{Revision: n, Mark: "m"} }
	records := []access.Record{{ID: "k", Org: "o", Revision: 2, Models: []string{"*"}}}
	for _, p := range []*page{
		{}, {Written: at, First: cursor(1)},
		{Written: at, First: cursor(1), Links: []link{{records, []access.Tenant{{Org: "o", Blocked: true, Revision: 3}}, true, cursor(3), at}}},
		{Written: at, First: cursor(1), Links: []link{{Next: cursor(1), Read: at}, {Next: access.Cursor{}, Read: at}, {records, nil, false, cursor(-1), at.Add(time.Hour)}}},
	} {
		f.Add(encode(p))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	s, err := newSource(nil, nil, []byte(secret))
	if err != nil {
		f.Fatal(err)
	}
	nonce := make([]byte, s.seal.NonceSize())
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := s.open(text); err == nil {
			t.Fatalf("%q opens as %+v", text, p)
		}
		sealed := s.seal.Seal(bytes.Clone(nonce), nonce, text, []byte(s.name))
		p, err := s.open(sealed)
		if err != nil {
			return
		}
		for _, l := range append([]link{{Next: p.First}}, p.Links...) {
			if c, ok := p.after(l.Next); ok && c.Next != p.last() {
				t.Fatalf("%+v leads to %+v, and the page ends at %+v", l.Next, c.Next, p.last())
			}
		}
		if _, ok := p.after(access.Cursor{Revision: 7, Mark: "of another history"}); ok && p.last().Mark != "of another history" && len(p.Links) == 0 {
			t.Fatal("a cursor of another history is in the page")
		}
		next := p.add(p.last(), access.Changes{Records: records, Next: cursor(9)}, at)
		size := 0
		for _, l := range next.Links {
			size += len(l.Records) + len(l.Tenants)
		}
		if len(next.Links) > maxLinks || size > maxKeys {
			t.Fatalf("%d groups with %d keys", len(next.Links), size)
		}
	})
}
