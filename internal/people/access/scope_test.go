package access

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/llm"
)

func TestMay(t *testing.T) {
	scoped := func(models, endpoints []string) Caller {
		return newCaller(&Record{ID: "k", Models: models, Endpoints: endpoints})
	}
	file, _ := NewKeys([]Key{{Secret: "sk"}}).Check(request("sk"))
	for _, c := range []struct {
		name            string
		caller          Caller
		endpoint, model string
		code            string
	}{
		{"name", scoped([]string{"a", "b"}, nil), "chat_completions", "b", ""},
		{"another name", scoped([]string{"a", "b"}, nil), "chat_completions", "c", "model_not_allowed"},
		{"a longer name", scoped([]string{"a"}, nil), "chat_completions", "ab", "model_not_allowed"},
		{"another case", scoped([]string{"a"}, nil), "chat_completions", "A", "model_not_allowed"},
		{"beginning", scoped([]string{"openai/*"}, nil), "chat_completions", "openai/gpt", ""},
		{"not that beginning", scoped([]string{"openai/*"}, nil), "chat_completions", "openai", "model_not_allowed"},
		{"a star inside is a star", scoped([]string{"a*b"}, nil), "chat_completions", "axb", "model_not_allowed"},
		{"all", scoped([]string{"*"}, nil), "chat_completions", "x", ""},
		{"no name", scoped([]string{"*"}, nil), "chat_completions", "", "model_not_allowed"},
		{"empty list", scoped(nil, nil), "chat_completions", "a", "model_not_allowed"},
		{"empty pattern", scoped([]string{""}, nil), "chat_completions", "", "model_not_allowed"},
		{"endpoint", scoped([]string{"*"}, []string{"embeddings", "rerank"}), "rerank", "a", ""},
		{"another endpoint", scoped([]string{"*"}, []string{"embeddings"}), "chat_completions", "a", "endpoint_not_allowed"},
		{"no endpoint", scoped([]string{"*"}, nil), "", "a", "endpoint_not_allowed"},
		{"key of the file", file, "chat_completions", "a", ""},
		{"nobody", Caller{}, "chat_completions", "a", "endpoint_not_allowed"},
	} {
		err := c.caller.May(c.endpoint, c.model)
		switch {
		case c.code == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.code != "" && (err == nil || err.Code != c.code || err.Kind != llm.Permission):
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
		if err == nil && !c.caller.Sees(c.model) {
			t.Errorf("%s: allowed and not seen", c.name)
		}
	}
	if (Caller{}).Sees("a") || !file.Sees("a") || file.MayUse("models") != nil || (Caller{}).MayUse("models") == nil {
		t.Error("who sees what")
	}
}

func TestCallerOfARecord(t *testing.T) {
	l := func(n int64) quota.Limit { return quota.Limit{Requests: n} }
	c := newCaller(&Record{ID: "k", Org: "o", Team: "t", Limit: quota.Limit{Concurrency: 7}, TeamLimit: l(2), OrgLimit: l(3), Criticality: "critical"})
	if c.ID != "k" || c.Key != "k" || c.Org != "o" || c.Team != "t" || c.Concurrency != 7 || c.Criticality != "critical" {
		t.Errorf("%+v", c)
	}
	var ids []string
	for _, a := range c.Accounts {
		ids = append(ids, a.ID)
	}
	if got := strings.Join(ids, " "); got != "key:k team:o/t org:o" {
		t.Error(got)
	}
	// An empty criticality is that of a gateway without keys, where a request may set
	// any.
	if c := newCaller(&Record{ID: "k", OrgLimit: l(1)}); c.Criticality != "normal" || len(c.Accounts) != 1 || c.Accounts[0].ID != "org:" {
		t.Errorf("%+v", c)
	}
	c = newCaller(&Record{ID: "k", Org: "o", Limit: quota.Limit{Budget: 1, More: "2/3 4/5"}, OrgLimit: quota.Limit{Requests: 6, Budget: 7, More: "8/9"}})
	want := []quota.Account{{ID: "key:k", Limit: quota.Limit{Budget: 1}}, {ID: "key#2:k", Limit: quota.Limit{Budget: 2, Window: 3}}, {ID: "key#3:k", Limit: quota.Limit{Budget: 4, Window: 5}},
		{ID: "org:o", Limit: quota.Limit{Requests: 6, Budget: 7}}, {ID: "org#2:o", Limit: quota.Limit{Budget: 8, Window: 9}}}
	if !slices.Equal(c.Accounts, want) {
		t.Errorf("%+v", c.Accounts)
	}
	if c := newCaller(&Record{ID: "k"}); c.Accounts != nil {
		t.Errorf("%+v", c)
	}
}

func TestWhatAKeyOpens(t *testing.T) {
	now := time.Now()
	nets := func(list ...string) (out []netip.Prefix) {
		for _, n := range list {
			out = append(out, netip.MustParsePrefix(n))
		}
		return out
	}
	for _, c := range []struct {
		name, from string
		change     func(*Record)
		want       string // empty: admitted
		kind       llm.Kind
	}{
		{"plain", "", func(*Record) {}, "", ""},
		{"revoked", "", func(r *Record) { r.Revoked = now.Add(-time.Hour) }, "revoked_api_key", llm.Authentication},
		{"revoked by a clock that is ahead", "", func(r *Record) { r.Revoked = now.Add(time.Hour) }, "revoked_api_key", llm.Authentication},
		{"expired", "", func(r *Record) { r.Expires = now.Add(-time.Second) }, "expired_api_key", llm.Authentication},
		{"expires", "", func(r *Record) { r.Expires = now.Add(time.Hour) }, "", ""},
		{"rotated out", "", func(r *Record) { r.Digests[0].Until = now.Add(-time.Second) }, "expired_api_key", llm.Authentication},
		{"blocked", "", func(r *Record) { r.TeamBlocked = true }, "blocked", llm.Permission},
		{"operator's", "", func(r *Record) { r.Role = Owner }, "operator_key", llm.Permission},
		{"of a role that is none", "", func(r *Record) { r.Role = "root" }, "operator_key", llm.Permission},
		{"in its network", "10.1.2.3:5", func(r *Record) { r.Networks = nets("192.0.2.0/24", "10.0.0.0/8") }, "", ""},
		{"in none", "11.1.2.3:5", func(r *Record) { r.Networks = nets("10.0.0.0/8") }, "address_not_allowed", llm.Permission},
		{"IPv4 in IPv6", "[::ffff:10.1.2.3]:5", func(r *Record) { r.Networks = nets("10.0.0.0/8") }, "", ""},
		{"a network of IPv4 in IPv6", "10.1.2.3:5", func(r *Record) { r.Networks = nets("::ffff:10.0.0.0/104") }, "", ""},
		{"IPv6 with a zone", "[fe80::1%eth0]:5", func(r *Record) { r.Networks = nets("fe80::/10") }, "", ""},
		{"no address", "@", func(r *Record) { r.Networks = nets("0.0.0.0/0", "::/0") }, "address_not_allowed", llm.Permission},
	} {
		s, p := newSource(), peppers(t)
		r, key := minted(p)
		c.change(&r)
		s.put(r)
		d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
		req := request(key)
		req.Header.Set("X-Forwarded-For", "10.1.2.3") // must be ignored
		if c.from != "" {
			req.RemoteAddr = c.from
		}
		caller, err := d.Check(req)
		switch {
		case c.want == "" && (err != nil || caller.Key != r.ID):
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || err.Code != c.want || err.Kind != c.kind || caller.Key != ""):
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), r.ID) || len(err.Message) < 20) {
			t.Errorf("%s: %v", c.name, err)
		}
		// Without the secret none of this is revealed.
		if _, err := d.Check(request(otherSecret(key, 42))); err == nil || err.Code != "invalid_api_key" {
			t.Errorf("%s, with a wrong secret: %v", c.name, err)
		}
	}
}

func TestOperator(t *testing.T) {
	s, p := newSource(), peppers(t)
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
	for _, role := range []Role{Owner, Admin, Billing, Auditor, KeyManager} {
		r, key := minted(p)
		r.Role = role
		s.put(r)
		if got, err := d.Operator(request(key)); err != nil || got.ID != r.ID || got.Role != role {
			t.Errorf("%s: %v", role, err)
		}
		wants(t, d, key, "403 operator_key")
	}
	client, clientKey := minted(p)
	s.put(client)
	odd, oddKey := minted(p)
	odd.Role = "root"
	s.put(odd)
	gone, goneKey := minted(p)
	gone.Role, gone.Revoked = Owner, time.Now()
	s.put(gone)
	for key, code := range map[string]string{clientKey: "client_key", oddKey: "client_key", goneKey: "revoked_api_key", "sk-file": "invalid_api_key", "": ""} {
		if got, err := d.Operator(request(key)); err == nil || err.Code != code || got.ID != "" {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestStaticKeys checks that keys of the configuration file work beside those of the
// store, and that an empty set accepts no key.
func TestStaticKeys(t *testing.T) {
	s, p := newSource(), peppers(t)
	_, keys := s.stored(p, 1)
	d := NewClients(NewKeys([]Key{{Secret: "sk-file", Criticality: "critical"}}), NewDirectory(DirectoryOptions{Source: s, Peppers: p}), nil)
	c, err := d.Check(request("sk-file"))
	if err != nil || c.Criticality != "critical" || c.Key != "" || c.Accounts != nil || c.May("chat_completions", "m") != nil {
		t.Errorf("%+v, %v", c, err)
	}
	wants(t, d, keys[0], "200")
	wants(t, d, "sk-other", "401 invalid_api_key")
	wants(t, d, "", "401 ")
	d = NewClients(NewKeys(nil), NewDirectory(DirectoryOptions{Source: s, Peppers: p}), nil)
	wants(t, d, "", "401 ")
	wants(t, d, "sk-file", "401 invalid_api_key")
	wants(t, d, keys[0], "200")
}
