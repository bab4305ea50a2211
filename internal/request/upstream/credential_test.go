package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/llm"
)

// numbered is a credential whose tokens are numbers. The upstream accepts good.
type numbered struct {
	token, good int
	renewable   bool
	err         error
	bodies      []string // that were signed
	renewals    int
}

func (n *numbered) Sign(_ context.Context, req *http.Request, body []byte) error {
	if n.err != nil {
		return n.err
	}
	n.bodies = append(n.bodies, string(body))
	req.Header.Set("Authorization", strconv.Itoa(n.token))
	return nil
}

func (n *numbered) Renew(context.Context, *http.Request, *http.Response) bool {
	n.renewals++
	n.token++
	return n.renewable
}

func (n *numbered) Secrets() []string          { return nil }
func (n *numbered) Redactor() *secret.Redactor { return nil }

// TestCredential signs every attempt, and sends a refused request once more if the credential
// can be renewed and the body is held.
func TestCredential(t *testing.T) {
	arrived := 0
	c := &numbered{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived++
		body, _ := io.ReadAll(r.Body)
		if string(body) != "the body" && r.Method == http.MethodPost {
			t.Errorf("body %q", body)
		}
		if r.Header.Get("Authorization") != strconv.Itoa(c.good) {
			http.Error(w, "refused", http.StatusForbidden)
		}
	}))
	defer server.Close()
	client := NewClient()
	defer client.Close()
	do := func(n *numbered, method string, upload bool) (int, *llm.Error) {
		*c = *n
		arrived = 0
		trip := client.RoundTrip(t.Context(), provider.Timeouts{Connect: time.Minute, FirstByte: time.Minute, Idle: time.Minute, Total: time.Minute}, 0)
		defer trip.Close()
		trip.Credential = c
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case upload:
			req.Body, req.ContentLength = trip.Upload(io.NopCloser(strings.NewReader("the body"))), int64(len("the body"))
		case method == http.MethodPost:
			SetBody(req, []byte("the body"))
		}
		if err := trip.Do(req); err != nil {
			return 0, err
		}
		return trip.Response.StatusCode, nil
	}
	for name, x := range map[string]struct {
		credential *numbered
		method     string
		upload     bool
		status     int
		arrived    int
		renewals   int
	}{
		"accepted":        {&numbered{}, http.MethodPost, false, 200, 1, 0},
		"renewed":         {&numbered{good: 1, renewable: true}, http.MethodPost, false, 200, 2, 1},
		"renewed, GET":    {&numbered{good: 1, renewable: true}, http.MethodGet, false, 200, 2, 1},
		"refused twice":   {&numbered{good: 7, renewable: true}, http.MethodPost, false, 403, 2, 1},
		"not renewable":   {&numbered{good: 1}, http.MethodPost, false, 403, 1, 1},
		"upload":          {&numbered{good: 1, renewable: true}, http.MethodPost, true, 403, 1, 0},
		"upload accepted": {&numbered{}, http.MethodPost, true, 200, 1, 0},
	} {
		status, err := do(x.credential, x.method, x.upload)
		if err != nil || status != x.status || arrived != x.arrived || c.renewals != x.renewals || len(c.bodies) != x.arrived {
			t.Errorf("%s: %d, %v; %d requests, %d renewals, %d signatures", name, status, err, arrived, c.renewals, len(c.bodies))
		}
		for _, body := range c.bodies {
			if x.method == http.MethodPost && !x.upload && body != "the body" {
				t.Errorf("%s: signed %q", name, body)
			}
		}
	}
	_, err := do(&numbered{err: errors.New("issuer down")}, http.MethodPost, false)
	if err == nil || err.Code != CodeCredential || strings.Contains(err.Message, "issuer down") || arrived != 0 {
		t.Errorf("%v after %d requests", err, arrived)
	}
}
