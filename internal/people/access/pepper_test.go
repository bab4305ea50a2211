package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

func peppers(t testing.TB, list ...secret.String) Peppers {
	t.Helper()
	if list == nil {
		list = []secret.String{pepperOne}
	}
	p, err := NewPeppers(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	pepperOne secret.String = "pepper one has thirty-two bytes."
	pepperTwo secret.String = "pepper two is of the same length"
)

func TestPeppersAreLong(t *testing.T) {
	for _, list := range [][]secret.String{nil, {""}, {"short"}, {pepperOne, pepperTwo[:31]}} {
		if _, err := NewPeppers(list); err == nil || !strings.Contains(err.Error(), "at least 32") || strings.Contains(err.Error(), "short") {
			t.Errorf("%d peppers: %v", len(list), err)
		}
	}
	if p := peppers(t, pepperOne, pepperTwo); p.Newest() != 2 || strings.Contains(fmt.Sprintf("%+v %#v", p, p), "pepper one") {
		t.Error("the newest is not the last, or it was printed")
	}
}

func TestDigest(t *testing.T) {
	id, sec, _ := Mint(EnvLive)
	d := peppers(t, pepperOne, pepperTwo).Digest(id, sec)
	m := hmac.New(sha256.New, []byte(pepperTwo.Reveal()))
	m.Write([]byte(id + sec.Reveal()))
	if d.Pepper != 2 || string(d.Sum[:]) != string(m.Sum(nil)) || !d.Until.IsZero() {
		t.Errorf("%+v", d)
	}
}

func TestPeppersCheck(t *testing.T) {
	now := time.Now()
	one, both := peppers(t), peppers(t, pepperOne, pepperTwo)
	id, sec, _ := Mint(EnvLive)
	_, next, _ := Mint(EnvLive)
	other, _, _ := Mint(EnvLive)
	ending := one.Digest(id, sec)
	ending.Until = now.Add(time.Second)
	rotated := []Digest{ending, both.Digest(id, next)}
	mislabelled := one.Digest(id, sec)
	mislabelled.Pepper = 2
	for _, c := range []struct {
		name    string
		p       Peppers
		id      string
		sec     secret.String
		digests []Digest
		at      time.Time
		want    match
	}{
		{"right", one, id, sec, []Digest{one.Digest(id, sec)}, now, matchValid},
		{"wrong", one, id, next, []Digest{one.Digest(id, sec)}, now, noMatch},
		{"no digest", one, id, sec, nil, now, noMatch},
		{"a digest of another id", one, id, sec, []Digest{one.Digest(other, sec)}, now, noMatch},
		{"an older pepper", both, id, sec, []Digest{one.Digest(id, sec)}, now, matchValid},
		{"a pepper that is not here", one, id, sec, []Digest{both.Digest(id, sec)}, now, noMatch},
		{"another version than it says", both, id, sec, []Digest{mislabelled}, now, noMatch},
		{"rotated, the old one", both, id, sec, rotated, now, matchValid},
		{"rotated, the new one", both, id, next, rotated, now, matchValid},
		{"rotated, the old one at its end", both, id, sec, rotated, now.Add(time.Second), matchExpired},
		{"rotated, the new one after that", both, id, next, rotated, now.Add(time.Second), matchValid},
	} {
		if got := c.p.check(c.id, c.sec, c.digests, c.at); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	p := peppers(b)
	id, sec, _ := Mint(EnvLive)
	b.ReportAllocs()
	for b.Loop() {
		p.Digest(id, sec)
	}
}
