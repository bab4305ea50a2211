package app

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestRedisAsOperatorsRunIt serves requests with an Idempotency-Key, with the cache and with a budget on a
// cluster of which one address is known, over TLS with a client certificate, and with an account that has
// the rights of the documentation.
func TestRedisAsOperatorsRunIt(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (setting string, check func()){
		"cluster": func(t *testing.T) (string, func()) {
			return fmt.Sprintf("{url: %q}", storetest.RedisCluster(t, 3, 0)[0].URL), func() {}
		},
		"TLS": func(t *testing.T) (string, func()) {
			a := newAuthority(t)
			cert, key := a.issue(t, "server")
			s := storetest.RedisTLS(t, a.file, cert, key)
			cert, key = a.issue(t, "gateway")
			return fmt.Sprintf("{url: %q, ca: %q, cert: %q, key: %q}", s.URL, a.file, cert, key), func() {}
		},
		"ACL": func(t *testing.T) (string, func()) {
			page, err := os.ReadFile("../../docs/operations/redis.md")
			if err != nil {
				t.Fatal(err)
			}
			rule := regexp.MustCompile(`(?m)^user (isogloss .*)$`).FindSubmatch(page)
			if rule == nil {
				t.Fatal("the page has no rule")
			}
			s := storetest.RedisWith(t, append([]string{"--user"}, strings.Fields(string(rule[1]))...)...)
			return fmt.Sprintf("{url: %q}", strings.Replace(s.URL, "redis://", "redis://isogloss:PASSWORD@", 1)), func() {
				if denied, err := storetest.RedisCLI(s.Addr, "ACL", "LOG"); err != nil || strings.TrimSpace(denied) != "" {
					t.Errorf("Redis has denied something: %s %v", denied, err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			setting, check := open(t)
			up := upstreamtest.New(t)
			up.Answer(expensive)
			configuration := stored(up, t.TempDir(), "sqlite", "cache: {ttl: 10m}\nredis: "+setting)
			key := keyringOf(t, configuration).must(t, quota.Limit{Budget: 100 * usage.Dollar, Requests: 1000}).Text
			g := start(t, configuration, quick())
			for _, c := range []struct{ temperature, header, want string }{{"1", "Idempotent-Replayed", "true"}, {"0", "Isogloss-Cache", "hit"}} {
				for i := range 12 {
					body := fmt.Sprintf(`{"model":"fast","temperature":%s,"max_tokens":100000,"messages":[{"role":"user","content":"%d"}]}`, c.temperature, i)
					id := ""
					if c.temperature == "1" {
						id = fmt.Sprint("id-", i)
					}
					eventually(t, fmt.Sprintf("request %d has its response again", i), func() bool { // a busy machine may get 503
						status, h := g.send(t, key, body, id)
						return status == http.StatusOK && h.Get(c.header) == c.want
					})
				}
			}
			eventually(t, "Redis is used", func() bool {
				text := g.log.String()
				return strings.Count(text, "redis is lost") == strings.Count(text, "redis is back")
			})
			check()
		})
	}
}

// send sends a request with an Idempotency-Key, unless it is empty, and returns the status and the headers.
func (g *gateway) send(t *testing.T, key secret.String, body, id string) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key.Reveal())
	if id != "" {
		req.Header.Set("Idempotency-Key", id)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // the headers count
	return resp.StatusCode, resp.Header
}
