package identity

import (
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// spellings returns texts of a token that are as valid as it is: with other bits that base64 ignores,
// and with the second signature of ECDSA.
func spellings(t *testing.T, token string, alg jose.SignatureAlgorithm) []string {
	t.Helper()
	at := strings.LastIndexByte(token, '.') + 1
	raw, err := base64.RawURLEncoding.DecodeString(token[at:])
	if err != nil {
		t.Fatal(err)
	}
	list := []string{token}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range letters {
		other := token[:len(token)-1] + letters[i:i+1]
		if again, err := base64.RawURLEncoding.DecodeString(other[at:]); err == nil && string(again) == string(raw) && other != token {
			list = append(list, other)
		}
	}
	if alg == jose.ES256 {
		s := new(big.Int).Sub(elliptic.P256().Params().N, new(big.Int).SetBytes(raw[32:]))
		list = append(list, token[:at]+base64.RawURLEncoding.EncodeToString(append(raw[:32:32], s.FillBytes(make([]byte, 32))...)))
	}
	return list
}

// TestRevokedSpellings revokes a token and tries every other text of it, known to the verifier or not.
// Tokens with another id are not concerned.
func TestRevokedSpellings(t *testing.T) {
	p := newProvider(t)
	for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA} {
		k := p.addKey(t, "k-"+string(alg), alg)
		for _, id := range []any{nil, "id-1", "", 7} {
			v := newTestVerifier(t, time.Now, p.issuer())
			v.Revoked = &Revoked{}
			token := sign(t, k, nil, p.claimsOf(map[string]any{"jti": id}))
			all := spellings(t, token, alg)
			if len(all) < 2 {
				t.Fatalf("%s: no other spelling", alg)
			}
			var revoked string
			for i, text := range all {
				person, fault := v.Person(t.Context(), text)
				if fault != nil {
					t.Fatalf("%s, jti %v, spelling %d: %v", alg, id, i, fault)
				}
				if i == 0 {
					revoked = person.Revocation
				} else if person.Revocation != revoked {
					t.Errorf("%s, jti %v: spelling %d would be another row", alg, id, i)
				}
			}
			v.Revoked.Set([]string{revoked})
			fresh := newTestVerifier(t, time.Now, p.issuer())
			fresh.Revoked = v.Revoked
			for i, text := range all {
				for _, one := range []*Verifier{v, fresh} {
					if _, fault := one.Person(t.Context(), text); fault == nil || fault.Code != "revoked_token" {
						t.Errorf("%s, jti %v, spelling %d: %v", alg, id, i, fault)
					}
				}
			}
			other := sign(t, k, nil, p.claimsOf(map[string]any{"jti": "id-2", "x": 1}))
			if _, fault := v.Person(t.Context(), other); fault != nil {
				t.Errorf("%s: another token: %v", alg, fault)
			}
		}
	}
}

// TestRevokedByText refuses tokens that an earlier version has revoked, which knew them by their text.
func TestRevokedByText(t *testing.T) {
	p := newProvider(t)
	v := newTestVerifier(t, time.Now, p.issuer())
	v.Revoked = &Revoked{}
	token := sign(t, p.keys[0], nil, p.claimsOf(nil))
	sum := sha256.Sum256([]byte(token))
	v.Revoked.Set([]string{base64.RawURLEncoding.EncodeToString(sum[:]), "short", ""})
	if _, fault := v.Person(t.Context(), token); fault == nil || fault.Code != "revoked_token" {
		t.Error(fault)
	}
}

// TestRevokedOfOneIssuer revokes a token. A token of another issuer with the same id is not concerned.
func TestRevokedOfOneIssuer(t *testing.T) {
	first, second := newProvider(t), newProvider(t)
	v := newTestVerifier(t, time.Now, first.issuer(), second.issuer())
	v.Revoked = &Revoked{}
	claims := map[string]any{"jti": "id-1"}
	one, other := sign(t, first.keys[0], nil, first.claimsOf(claims)), sign(t, second.keys[0], nil, second.claimsOf(claims))
	person, fault := v.Person(t.Context(), one)
	if fault != nil {
		t.Fatal(fault)
	}
	v.Revoked.Set([]string{person.Revocation})
	if _, fault := v.Person(t.Context(), one); fault == nil || fault.Code != "revoked_token" {
		t.Error(fault)
	}
	if _, fault := v.Person(t.Context(), other); fault != nil {
		t.Errorf("the token of another issuer: %v", fault)
	}
}
