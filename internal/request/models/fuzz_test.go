package models

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// FuzzList reads any bytes as an upstream's list of models, in each dialect that has one: what is read can be shown.
func FuzzList(f *testing.F) {
	for _, text := range []string{`{"data":[{"id":"m","owned_by":"x","created":5}]}`, `{"data":[{"id":"a","display_name":"A","created_at":"2026-01-01T00:00:00Z"}],"has_more":true}`, `{"models":[{"name":"models/a","displayName":"A","inputTokenLimit":5}],"nextPageToken":"x"}`,
		`{"data":[{"id":"\u0000\u202e"},{"id":""},{"id":"a*"},{"id":"a"},{"id":"a"}]}`, `{"data":[null,{},[],"x",1e999]}`, `{"data":{}}`, `[]`, `null`, ``} {
		f.Add([]byte(text))
	}
	base, err := url.Parse("http://127.0.0.1/v1")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := newTestCatalog(t, roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text))}, nil
		}))
		for _, d := range all.Dialects() {
			if d.UpstreamModels == nil {
				continue
			}
			models, err := c.get(&provider.Provider{Name: "p", Protocol: d.Name, BaseURL: base, Auth: provider.Custom(d.Name).Auth, Key: "k"}, d)
			seen := map[string]bool{}
			for _, m := range models {
				if !printable(m.ID) || m.Name != "" && !printable(m.Name) || seen[m.ID] {
					t.Errorf("%s: %+v, %v", d.Name, m, err)
				}
				seen[m.ID] = true
			}
		}
	})
}
