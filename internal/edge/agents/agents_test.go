package agents

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

func TestKey(t *testing.T) {
	for want, headers := range map[string]http.Header{
		"":  {"Authorization": {"Basic b"}},
		"a": {"X-Api-Key": {"a"}, "Authorization": {"Bearer b"}},
		"b": {"Authorization": {"bearer  b"}, "X-Goog-Api-Key": {"c"}},
		"c": {"X-Goog-Api-Key": {"c"}},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header = headers
		if got := Key(r); got != want {
			t.Errorf("%v: %q, want %q", headers, got, want)
		}
		if want != "" && !slices.Contains(Credentials(r), want) {
			t.Errorf("%v: %q is not among the credentials", headers, want)
		}
	}
}

func TestWithoutKey(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "key=k": "", "a=1&key=k&b=2": "a=1&b=2", "%6bey=k&a=1": "a=1", "a=1;key=k&b": "b", "%zz=1&monkey=1": "monkey=1",
	} {
		if got := WithoutKey(query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}
