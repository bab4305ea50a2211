package safeurl

import (
	"net/url"
	"testing"
)

func TestIsSafe(t *testing.T) {
	for text, want := range map[string]bool{
		"https://idp.example.com": true, "http://127.0.0.1:8080": true, "http://[::1]/x": true, "http://localhost:1": true,
		"http://idp.example.com": false, "http://127.0.0.1.example.com": false, "http://localhost.example.com": false, "ftp://127.0.0.1": false, "127.0.0.1": false, "": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := IsSafe(u); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
