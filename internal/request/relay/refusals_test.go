package relay

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/refusals"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
)

// refused receives what a recorder sends.
type refused struct {
	mu     sync.Mutex
	counts map[string]int64
	rows   map[string]usage.Row
}

func (s *refused) AppendRefusals(_ context.Context, b usage.Refusals) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range b.Counts {
		s.counts[c.Key+" "+string(c.Reason)] = c.Count
	}
	for _, r := range b.Rows {
		s.rows[r.ID] = r
	}
	return nil
}

// withRefusals makes a gateway record refusals. The key id known exists. The second function returns what was recorded.
func withRefusals(t *testing.T) (func(*gateway), func() *refused) {
	t.Helper()
	r := refusals.New(refusals.Options{Folder: t.TempDir(), Node: "n1", Log: "log", Owner: func(id string) (refusals.Owner, bool) {
		return refusals.Owner{Org: "o1", Team: "t1"}, id == "known"
	}})
	sink := &refused{counts: map[string]int64{}, rows: map[string]usage.Row{}}
	return func(g *gateway) { g.state.Books.Refusals = r }, func() *refused {
		r.Flush(t.Context(), sink)
		return sink
	}
}

// checker is a source of callers that a test sets.
type checker func(r *http.Request) (access.Caller, *llm.Error)

func (c checker) Check(r *http.Request) (access.Caller, *llm.Error) { return c(r) }

// secretText is in the prompt of each request of TestRefusals.
const secretText = "the prompt is private"

// TestRefusals refuses requests for each reason: each is counted once and kept as a row, with what the client was told
// and what would have let it pass, and without a word of the prompt.
func TestRefusals(t *testing.T) {
	as := func(c access.Caller, err *llm.Error) func(*gateway) {
		return func(g *gateway) {
			g.state.Keys = checker(func(*http.Request) (access.Caller, *llm.Error) { return c, err })
		}
	}
	body := `{"model":"real-chat","messages":[{"role":"user","content":"` + secretText + `"}]}`
	for name, c := range map[string]struct {
		limit  quota.Limit
		setup  func(*gateway)
		path   string // default: chatPath
		body   string
		header string // name: value
		want   string // key and reason; empty: nothing is recorded
		code   string
		remedy string
	}{
		"limit":           {limit: quota.Limit{Requests: 1}, want: "k1 limit", code: "rate_limit_requests", remedy: "later"},
		"budget":          {limit: quota.Limit{Budget: 1}, want: "k1 budget", code: "budget_exceeded", remedy: "higher budget"},
		"unknown model":   {body: strings.Replace(body, "real-chat", "reel-chat", 1), want: "k1 access", code: "model_not_found", remedy: "name of a model"},
		"wrong secret":    {setup: as(access.Caller{Claimed: "known"}, &llm.Error{Kind: llm.Authentication, Code: "invalid_api_key", Message: "wrong"}), want: "known key", code: "invalid_api_key", remedy: "present secret"},
		"expired":         {setup: as(access.Caller{Claimed: "known"}, &llm.Error{Kind: llm.Authentication, Code: "expired_api_key", Message: "old"}), want: "known key", code: "expired_api_key", remedy: "later expiry"},
		"unknown key":     {setup: as(access.Caller{Claimed: "unknown"}, &llm.Error{Kind: llm.Authentication, Code: "invalid_api_key", Message: "wrong"})},
		"no key":          {setup: as(access.Caller{}, &llm.Error{Kind: llm.Authentication, Message: "none"})},
		"malformed":       {body: `{"model":`},
		"strict fidelity": {setup: ownDialect("/v1/messages"), body: strings.Replace(body, `"messages"`, `"logit_bias":{"1":2},"messages"`, 1), header: "Isogloss-Fidelity-Mode: strict", want: "k1 fidelity", code: "unsupported_parameter", remedy: "loose"},
		"no target":       {setup: ownDialect("/v1/messages"), path: "/v1/embeddings", body: `{"model":"real-chat","input":"` + secretText + `"}`, want: "k1 target", code: "unsupported_protocol", remedy: "has the endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			var limits []quota.Limit
			if !c.limit.IsZero() {
				limits = append(limits, c.limit)
			}
			books := newLedger(t, limits...)
			use, recorded := withRefusals(t)
			setup := []func(*gateway){books.use, use}
			if c.setup != nil {
				setup = append(setup, c.setup)
			}
			g := newGateway(t, setup...)
			g.up.Answer(upstreamtest.JSON(200, plainResponse))
			if c.limit.Requests > 0 {
				if resp, got, _ := g.post(t, chatPath, body); resp.StatusCode != http.StatusOK {
					t.Fatal(got)
				}
				g.line(t)
			}
			var headers []string
			if n, v, ok := strings.Cut(c.header, ": "); ok {
				headers = []string{n, v}
			}
			resp, got, _ := g.post(t, cmp.Or(c.path, chatPath), cmp.Or(c.body, body), headers...)
			g.line(t) // the request is recorded before its log line
			s := recorded()
			if c.want == "" {
				if len(s.counts)+len(s.rows) != 0 {
					t.Errorf("%v %v of %s", s.counts, s.rows, got)
				}
				return
			}
			if len(s.counts) != 1 || s.counts[c.want] != 1 || len(s.rows) != 1 {
				t.Fatalf("%v %+v of %s", s.counts, s.rows, got)
			}
			row := s.rows[resp.Header.Get("X-Request-Id")]
			_, message := readError(t, got)
			if row.Status != resp.StatusCode || row.Outcome != usage.Refused || row.Org != "o1" || row.Team != "t1" || len(row.Attempts) != 0 {
				t.Errorf("%+v", row)
			}
			if row.Told.Code != c.code || row.Told.Message != message || !strings.Contains(row.Told.Remedy, c.remedy) {
				t.Errorf("%+v of %s", row.Told, got)
			}
			if strings.Contains(row.Told.Message+row.Told.Remedy, secretText) {
				t.Errorf("the row quotes the prompt: %+v", row.Told)
			}
			for _, r := range books.all(t) {
				if r.ID == row.ID && r.Outcome != usage.Refused {
					t.Errorf("the ledger has the request as %s", r.Outcome)
				}
			}
		})
	}
}

// TestServedRequestsAreNotRefusals checks that neither an answer nor an error of an upstream is a refusal.
func TestServedRequestsAreNotRefusals(t *testing.T) {
	books := newLedger(t)
	use, recorded := withRefusals(t)
	g := newGateway(t, books.use, use)
	for _, answer := range []upstreamtest.Script{upstreamtest.JSON(200, plainResponse), upstreamtest.JSON(429, busy), upstreamtest.JSON(400, busy), upstreamtest.JSON(503, busy)} {
		g.up.Answer(answer)
		_, _, _ = g.post(t, chatPath, plainRequest)
		g.line(t)
	}
	if s := recorded(); len(s.counts)+len(s.rows) != 0 {
		t.Errorf("%v %v", s.counts, s.rows)
	}
}

// TestFailedRowHasTheError checks that the row of a failed request has the error as the client got it and no fidelity,
// and that the text of an upstream, which may quote the prompt, is not stored.
func TestFailedRowHasTheError(t *testing.T) {
	for name, c := range map[string]struct {
		answer  upstreamtest.Script
		told    usage.Told
		message bool
	}{
		"refused credential": {upstreamtest.JSON(401, `{"error":{"message":"`+secretText+`","type":"x","code":"invalid_api_key"}}`), usage.Told{Code: "upstream_auth"}, true},
		"not JSON":           {upstreamtest.JSON(200, secretText), usage.Told{Code: "upstream_invalid_response"}, true},
		"relayed":            {upstreamtest.JSON(400, `{"error":{"message":"`+secretText+`","type":"invalid_request_error","code":"bad"}}`), usage.Told{Code: "bad"}, false},
		"server":             {upstreamtest.JSON(500, `{"error":{"message":"`+secretText+`","type":"server_error","code":"boom"}}`), usage.Told{Code: "boom"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t)
			g := newGateway(t, books.use, speaking(chatDialect), func(g *gateway) { g.state.Retries.Attempts = 1 })
			g.up.Answer(c.answer)
			resp, got, _ := g.post(t, "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`)
			row := books.one(t, g)
			if resp.StatusCode < 400 || row.Outcome != usage.Failed || row.Fidelity != "" {
				t.Errorf("%s %s %+v", resp.Status, got, row)
			}
			if row.Told.Code != c.told.Code || (row.Told.Message != "") != c.message || strings.Contains(row.Told.Message, secretText) || c.message && !strings.Contains(got, row.Told.Message) {
				t.Errorf("%+v of %s", row.Told, got)
			}
			if row.Told.Reason != "" || row.Told.Remedy != "" {
				t.Errorf("%+v", row.Told)
			}
		})
	}
}
