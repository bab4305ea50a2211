package access

import (
	"encoding/binary"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestWrongKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newSource(), peppers(t)
		_, keys := s.stored(p, 2)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		wants(t, d, keys[0], "200")
		bad := []func() string{
			func() string { return otherSecret(keys[0], 10) },
			func() string { return "sk-junk" },
			func() string { _, k := minted(p); return k },
		}
		for i := range wrongPerMinute {
			wants(t, d, bad[i%3](), "401 invalid_api_key")
			wants(t, d, "", "401 ") // a missing key does not count as a wrong one
		}
		asked, _ := s.questions()
		for i := range 30 {
			_, err := d.Check(request(bad[i%3]()))
			if err == nil || err.HTTPStatus() != 429 || err.RetryAfter <= 0 || err.RetryAfter > wrongEvery {
				t.Fatalf("%v", err)
			}
		}
		if again, _ := s.questions(); again != asked {
			t.Errorf("the store was asked %d times for who tries keys", again-asked)
		}
		wants(t, d, keys[0], "200") // from the same address
		elsewhere := request(bad[0]())
		elsewhere.RemoteAddr = "198.51.100.7:1"
		if _, err := d.Check(elsewhere); err == nil || err.HTTPStatus() != 401 {
			t.Errorf("from elsewhere: %v", err)
		}
		// A valid key that is not in memory is rejected like the others, and not as a
		// wrong key.
		wants(t, d, keys[1], "429 too_many_wrong_keys")
		time.Sleep(wrongEvery)
		wants(t, d, keys[1], "200")
		wants(t, d, bad[0](), "401 invalid_api_key")
		wants(t, d, bad[0](), "429 too_many_wrong_keys")
		time.Sleep(time.Minute)
		for range wrongPerMinute {
			wants(t, d, bad[0](), "401 invalid_api_key")
		}
		wants(t, d, bad[0](), "429 too_many_wrong_keys")
	})
}

// TestWrongStaticKeys checks that wrong keys are limited in the same way without a store, also
// across a reload, and that correct ones are not.
func TestWrongStaticKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := NewKeys([]Key{{Secret: "sk-one"}})
		check := func(key string) (status int, code string) {
			if _, err := keys.Check(request(key)); err != nil {
				return err.HTTPStatus(), err.Code
			}
			return http.StatusOK, ""
		}
		for i := range wrongPerMinute {
			if status, code := check("sk-wrong"); status != http.StatusUnauthorized || code != "invalid_api_key" {
				t.Fatalf("wrong key %d: %d %s", i+1, status, code)
			}
			if status, _ := check(""); status != http.StatusUnauthorized { // a missing key does not count as a wrong one
				t.Fatalf("no key: %d", status)
			}
		}
		keys = keys.Renew([]Key{{Secret: "sk-two"}})
		if status, code := check("sk-one"); status != http.StatusTooManyRequests || code != "too_many_wrong_keys" {
			t.Errorf("one more: %d %s", status, code)
		}
		if status, _ := check("sk-two"); status != http.StatusOK {
			t.Errorf("a correct key: %d", status)
		}
		time.Sleep(wrongEvery)
		if status, _ := check("sk-wrong"); status != http.StatusUnauthorized {
			t.Errorf("later: %d", status)
		}
	})
}

// TestWrongKeysByHousehold checks that an IPv6 /64 counts as one client, and an IPv4 address as
// one.
func TestWrongKeysByHousehold(t *testing.T) {
	w, now := NewFailures(), time.Now()
	at := netip.MustParseAddr
	for i := range wrongPerMinute {
		w.add(netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i)}), now)
		w.add(at("192.0.2.1"), now)
	}
	for addr, limited := range map[string]bool{"2001::ffff:1": true, "2001:0:0:1::": false, "192.0.2.1": true, "192.0.2.2": false} {
		if got := w.wait(at(addr), now) > 0; got != limited {
			t.Errorf("%s: %v", addr, got)
		}
	}
	if w.wait(netip.Addr{}, now) != 0 || w.add(netip.Addr{}, now) != 0 {
		t.Error("who has no address is limited from the start")
	}
}

func TestWrongKeysHasABound(t *testing.T) {
	w, now := NewFailures(), time.Now()
	for i := range uint32(10 * wrongAddresses) {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], i)
		w.add(netip.AddrFrom4(a), now)
	}
	if n := w.expires.Len(); n > 2*wrongAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
}
