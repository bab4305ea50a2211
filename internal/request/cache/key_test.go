package cache

import (
	"testing"
	"testing/quick"
)

// TestTenantsShareNothing checks that two tenants have different keys for the same
// request.
func TestTenantsShareNothing(t *testing.T) {
	ring, err := newKeyring(secret)
	if err != nil {
		t.Fatal(err)
	}
	apart := func(a, b, endpoint, version, path string, body []byte) bool {
		q := &Request{Endpoint: endpoint, Version: version, Path: path, Body: body}
		return (ring.response(a, q) == ring.response(b, q)) == (a == b) && (ring.once(a, path) == ring.once(b, path)) == (a == b)
	}
	if err := quick.Check(apart, nil); err != nil {
		t.Error(err)
	}
}

// TestFieldsAreApart checks that moving text from one field to the next changes the key.
func TestFieldsAreApart(t *testing.T) {
	ring, err := newKeyring(secret)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Key]string{}
	for name, make := range map[string]func() Key{
		"plain":       func() Key { return ring.response("t", &Request{Endpoint: "ab", Dialect: "c"}) },
		"moved":       func() Key { return ring.response("t", &Request{Endpoint: "a", Dialect: "bc"}) },
		"into tenant": func() Key { return ring.response("tab", &Request{Dialect: "c"}) },
		"version":     func() Key { return ring.response("t", &Request{Endpoint: "ab", Version: "c"}) },
		"path":        func() Key { return ring.response("t", &Request{Endpoint: "ab", Path: "c"}) },
		"route":       func() Key { return ring.response("t", &Request{Endpoint: "ab", Route: "c"}) },
		"one beta":    func() Key { return ring.response("t", &Request{Endpoint: "ab", Betas: []string{"c"}}) },
		"two betas":   func() Key { return ring.response("t", &Request{Endpoint: "ab", Betas: []string{"c", ""}}) },
		"body":        func() Key { return ring.response("t", &Request{Endpoint: "ab", Body: []byte("c")}) },
		"once":        func() Key { return ring.once("t", "abc") },
		"once, moved": func() Key { return ring.once("ta", "bc") },
		"digest":      func() Key { return ring.digest(&Request{Endpoint: "ab", Dialect: "c"}) },
		"other secret": func() Key {
			return keyring{secret: []byte("other")}.response("t", &Request{Endpoint: "ab", Dialect: "c"})
		},
		"org":           func() Key { return ring.response(Tenant("x", "y"), &Request{}) },
		"key like org":  func() Key { return ring.response(Tenant("", "x"), &Request{}) },
		"long endpoint": func() Key { return ring.response("t", &Request{Endpoint: string(make300())}) },
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

// TestTenant checks that only the API keys of one organisation share responses.
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
		t.Error("a short secret was accepted")
	}
	if _, err := NewOnce(nil, OnceOptions{}); err == nil {
		t.Error("an empty secret was accepted")
	}
}
