package models

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// roundTrip is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newTestCatalog(t *testing.T, transport http.RoundTripper) *Catalog {
	c := NewCatalog(all.Dialects(), transport, slog.New(slog.DiscardHandler))
	t.Cleanup(c.Close)
	return c
}

func newProvider(t *testing.T, name string, p protocol.Name, base string) *provider.Provider {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return &provider.Provider{Name: name, Protocol: p, BaseURL: u, Auth: provider.Custom(p).Auth, Key: secret.String("key-of-" + name)}
}

func newView(c *Catalog, routes ...*route.Route) View {
	return View{Routes: route.New(routes), Created: time.Unix(1, 0), Catalog: c}
}

func pattern(name string, targets ...route.Target) *route.Route {
	return &route.Route{Name: name, OwnedBy: "owner", Targets: targets}
}

func anybody(string) bool { return true }

func ids(models []codec.Model) (list []string) {
	for _, m := range models {
		list = append(list, m.ID)
	}
	return list
}

// TestPatternsAreExpanded checks that patterns are listed as the models of the providers'
// own lists, over real connections and with each dialect's path and credential, and that
// models have what those lists say of them.
func TestPatternsAreExpanded(t *testing.T) {
	var seen atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		switch {
		case r.URL.Path == "/v1/models" && r.Header.Get("Authorization") == "Bearer key-of-one":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"gpt-x","created":5,"shutdown_date":"2030-01-02"},{"id":"gpt-y","context_length":1000,"top_provider":{"max_completion_tokens":100},
				"pricing":{"prompt":"0.000001","completion":"0.000002"},"supported_parameters":["tools","reasoning"],"architecture":{"input_modalities":["text","image"]}},
				{"id":"vllm","max_model_len":4096},{"id":"gpt-x"},{"id":7},{"id":""},{"id":"a*"},"no",{"id":"`+strings.Repeat("x", 300)+`"}]}`)
		case r.URL.Path == "/v1/models" && r.Header.Get("X-Api-Key") == "key-of-two" && r.Header.Get("Anthropic-Version") != "" && r.URL.Query().Get("limit") == "1000":
			_, _ = io.WriteString(w, `{"data":[{"type":"model","id":"c-1","display_name":"C 1","created_at":"2026-01-02T03:04:05Z","max_input_tokens":200000,"max_tokens":64000,"lifecycle":"deprecated","retires_at":"2027-01-01T00:00:00Z",
				"capabilities":{"image_input":{"supported":true},"pdf_input":{"supported":false},"thinking":{"supported":true}}},{"id":"old","lifecycle":"retired"}],"has_more":false}`)
		case r.URL.Path == "/v1beta/models" && r.Header.Get("X-Goog-Api-Key") == "key-of-three":
			_, _ = io.WriteString(w, `{"models":[{"name":"models/g-1","displayName":"G 1","inputTokenLimit":1048576,"outputTokenLimit":65536,"thinking":true}]}`)
		default:
			t.Errorf("%s %v", r.URL, r.Header)
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	one, two, three := newProvider(t, "one", "openai-chat", server.URL+"/v1"), newProvider(t, "two", "anthropic", server.URL), newProvider(t, "three", "gemini", server.URL)
	v := newView(newTestCatalog(t, http.DefaultTransport), pattern("o/*", route.Target{Provider: one, Model: "*"}), pattern("o/gpt-*", route.Target{Provider: one, Model: "gpt-*"}),
		pattern("a/*", route.Target{Provider: two, Model: "*"}), pattern("g/*", route.Target{Provider: three, Model: "*"}), &route.Route{Name: "alias", Targets: []route.Target{{Provider: two, Model: "c-1"}}},
		pattern("fixed/*", route.Target{Provider: one, Model: "vllm"}))
	models := v.List(t.Context(), anybody)
	if got, want := ids(models), []string{"o/vllm", "o/gpt-x", "o/gpt-y", "a/c-1", "g/g-1", "alias"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i, want := range []codec.Model{
		{ID: "o/vllm", OwnedBy: "owner", Created: time.Unix(1, 0), Context: 4096},
		{ID: "o/gpt-x", OwnedBy: "owner", Created: time.Unix(5, 0), Shutdown: time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)},
		{ID: "o/gpt-y", OwnedBy: "owner", Created: time.Unix(1, 0), Context: 1000, MaxOutput: 100, Capabilities: []codec.Capability{"image_input", "tools", "thinking"}, Price: codec.Price{Input: "0.000001", Output: "0.000002"}},
		{ID: "a/c-1", Name: "C 1", OwnedBy: "owner", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Context: 200000, MaxOutput: 64000, Capabilities: []codec.Capability{"image_input", "tools", "thinking"}, Shutdown: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
		{ID: "g/g-1", Name: "G 1", OwnedBy: "owner", Created: time.Unix(1, 0), Context: 1048576, MaxOutput: 65536, Capabilities: []codec.Capability{"thinking"}},
	} {
		if got := models[i]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v\nwant\n%+v", got, want)
		}
	}
	if got := ids(v.List(t.Context(), func(name string) bool { return name == "o/gpt-x" })); !slices.Equal(got, []string{"o/gpt-x"}) {
		t.Errorf("a key for one model sees %q", got)
	}
	if got := v.Unexpanded(); !slices.Equal(got, []string{"fixed/*"}) {
		t.Errorf("unexpanded: %q", got)
	}
	if n := seen.Load(); n != 3 {
		t.Errorf("%d lists were fetched for two requests, want 3", n)
	}
	for name, want := range map[string][]string{"gpt-x": {"o/gpt-x"}, "o/gpt-z": {"o/gpt-x", "o/gpt-y"}, "gpt-unheard-of": {"o/gpt-unheard-of"}, "aliass": {"alias"}, "something else": nil} {
		if got := v.Similar(name, anybody); !slices.Equal(got, want) {
			t.Errorf("%s: similar are %q, want %q", name, got, want)
		}
	}
}

// TestListsAreRefreshed checks that a list is used for ten minutes, that then a request
// gets the old one while the new one is fetched, that a failure keeps the old list, and
// that a provider which does not answer delays a request by two seconds.
func TestListsAreRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fetches atomic.Int32
		status, delay := http.StatusOK, time.Duration(0)
		c := newTestCatalog(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			n := fetches.Add(1)
			select {
			case <-time.After(delay):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(fmt.Sprintf(`{"data":[{"id":"m%d"}]}`, n)))}, nil
		}))
		v := newView(c, pattern("o/*", route.Target{Provider: newProvider(t, "one", "openai-chat", "http://one/v1"), Model: "*"}))
		want := func(names ...string) {
			t.Helper()
			if got := ids(v.List(t.Context(), anybody)); !slices.Equal(got, names) {
				t.Errorf("%q, want %q", got, names)
			}
			synctest.Wait()
		}
		want("o/m1")
		time.Sleep(9 * time.Minute)
		want("o/m1")
		time.Sleep(2 * time.Minute)
		want("o/m1") // and m2 is fetched
		want("o/m2")
		status = http.StatusInternalServerError
		time.Sleep(11 * time.Minute)
		want("o/m2")
		want("o/m2")
		if n := fetches.Load(); n != 3 {
			t.Errorf("%d fetches, want 3", n)
		}
		time.Sleep(time.Minute)
		status = http.StatusOK
		want("o/m2")
		want("o/m4")

		delay = time.Hour
		v.Routes = route.New([]*route.Route{pattern("p/*", route.Target{Provider: newProvider(t, "slow", "openai-chat", "http://slow/v1"), Model: "*"})})
		began := time.Now()
		want()
		if took := time.Since(began); took != firstWait {
			t.Errorf("a request waited %v", took)
		}
	})
}

// TestWithoutAList checks that a provider with a preset has the models of the price table,
// with their prices and ends, if it serves no list.
func TestWithoutAList(t *testing.T) {
	prices, err := usage.NewBook(usage.BookOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := newTestCatalog(t, roundTrip(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }))
	p := newProvider(t, "openai", "openai-chat", "http://none/v1")
	p.Preset = "openai"
	v := newView(c, pattern("openai/*", route.Target{Provider: p, Model: "*"}), pattern("local/*", route.Target{Provider: newProvider(t, "local", "openai-chat", "http://local/v1"), Model: "*"}))
	v.Prices = prices
	models := v.List(t.Context(), anybody)
	i := slices.IndexFunc(models, func(m codec.Model) bool { return m.ID == "openai/gpt-5.1" })
	if i < 0 {
		t.Fatalf("%q", ids(models))
	}
	m := models[i]
	if m.Price.Input != "0.00000125" || m.Price.Output != "0.00001" || m.Context != 400000 || m.Shutdown.Format(time.DateOnly) != "2027-04-01" {
		t.Errorf("%+v", m)
	}
	if got := v.Unexpanded(); !slices.Equal(got, []string{"local/*"}) {
		t.Errorf("unexpanded: %q", got)
	}
}

// TestLargeLists checks the limits of a list.
func TestLargeLists(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"data":[`)
	for i := range maxEntries + 10 {
		fmt.Fprintf(&body, `{"id":"m%d"},`, i)
	}
	text := strings.TrimSuffix(body.String(), ",") + "]}"
	for name, c := range map[string]struct {
		body string
		want int
	}{"many": {text, maxEntries}, "large": {text[:len(text)-1] + strings.Repeat(" ", maxBytes) + "}", 0}, "no list": {`{"data":"no"}`, 0}, "no JSON": {"<html>", 0}} {
		catalog := newTestCatalog(t, roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(c.body))}, nil
		}))
		v := newView(catalog, pattern("o/*", route.Target{Provider: newProvider(t, "one", "openai-chat", "http://one/v1"), Model: "*"}))
		if got := len(v.List(t.Context(), anybody)); got != c.want {
			t.Errorf("%s: %d models, want %d", name, got, c.want)
		}
	}
}
