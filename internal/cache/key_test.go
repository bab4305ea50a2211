package cache

import (
	"testing"
	"testing/quick"
)

// No two tenants have a key in common, whatever they ask for.
func TestTenantsShareNothing(t *testing.T) {
	ring, err := newKeyring(secret)
	if err != nil {
		t.Fatal(err)
	}
	apart := func(a, b, endpoint, version, path string, body []byte) bool {
		q := &Request{Endpoint: endpoint, Version: version, Path: path, Body: body}
		return (ring.answer(a, q) == ring.answer(b, q)) == (a == b) && (ring.once(a, path) == ring.once(b, path)) == (a == b)
	}
	if err := quick.Check(apart, nil); err != nil {
		t.Error(err)
	}
}

// Text that moves from one field to its neighbour makes another key.
func TestFieldsAreApart(t *testing.T) {
	ring, err := newKeyring(secret)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Key]string{}
	for name, make := range map[string]func() Key{
		"plain":       func() Key { return ring.answer("t", &Request{Endpoint: "ab", Dialect: "c"}) },
		"moved":       func() Key { return ring.answer("t", &Request{Endpoint: "a", Dialect: "bc"}) },
		"into tenant": func() Key { return ring.answer("tab", &Request{Dialect: "c"}) },
		"version":     func() Key { return ring.answer("t", &Request{Endpoint: "ab", Version: "c"}) },
		"path":        func() Key { return ring.answer("t", &Request{Endpoint: "ab", Path: "c"}) },
		"route":       func() Key { return ring.answer("t", &Request{Endpoint: "ab", Route: "c"}) },
		"one beta":    func() Key { return ring.answer("t", &Request{Endpoint: "ab", Betas: []string{"c"}}) },
		"two betas":   func() Key { return ring.answer("t", &Request{Endpoint: "ab", Betas: []string{"c", ""}}) },
		"body":        func() Key { return ring.answer("t", &Request{Endpoint: "ab", Body: []byte("c")}) },
		"once":        func() Key { return ring.once("t", "abc") },
		"once, moved": func() Key { return ring.once("ta", "bc") },
		"digest":      func() Key { return ring.digest(&Request{Endpoint: "ab", Dialect: "c"}) },
		"other secret": func() Key {
			return keyring{secret: []byte("other")}.answer("t", &Request{Endpoint: "ab", Dialect: "c"})
		},
		"org":           func() Key { return ring.answer(Tenant("x", "y"), &Request{}) },
		"key like org":  func() Key { return ring.answer(Tenant("", "x"), &Request{}) },
		"long endpoint": func() Key { return ring.answer("t", &Request{Endpoint: string(make300())}) },
	} {
		k := make()
		if other, taken := seen[k]; taken {
			t.Errorf("%s and %s have the same key", name, other)
		}
		seen[k] = name
	}
}

func make300() []byte {
	b := make([]byte, 300)
	b[299] = 1
	return b
}

// Keys of an organisation share answers, and nobody else does.
func TestTenant(t *testing.T) {
	if Tenant("o", "k1") != Tenant("o", "k2") {
		t.Error("two keys of one organisation are two tenants")
	}
	if Tenant("", "k1") == Tenant("", "k2") || Tenant("k1", "") == Tenant("", "k1") {
		t.Error("keys without an organisation are one tenant")
	}
}

func TestShortSecret(t *testing.T) {
	if _, err := New(nil, Options{Secret: []byte("short")}); err == nil {
		t.Error("a short secret was taken")
	}
	if _, err := NewOnce(nil, OnceOptions{}); err == nil {
		t.Error("no secret was taken")
	}
}
