package admin

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/amounts"
	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

func TestUsage(t *testing.T) {
	w := newWorld(t).serve()
	owner, billing := w.operator(access.Owner, ""), w.operator(access.Billing, "b")
	all := read[usageView](t, w.send(owner, "GET", "/api/v1/usage", ""), 200)
	if len(all.Sums) != 1 || all.Sums[0].Requests != 2 || all.Sums[0].Cost != "0.000003" || !reflect.DeepEqual(all.Sums[0].Tokens, amounts.Tokens{Input: 20, Output: 10}) || !all.Sums[0].Start.IsZero() {
		t.Errorf("%+v", all)
	}
	grouped := read[usageView](t, w.send(owner, "GET", "/api/v1/usage?group=day,org,model", ""), 200)
	if len(grouped.Sums) != 2 || grouped.Sums[0].Org != "a" || grouped.Sums[1].Org != "b" || grouped.Sums[0].Model != "m" || grouped.Sums[0].Start.IsZero() {
		t.Errorf("%+v", grouped)
	}
	if one := grouped.Times; len(one) != 1 || one[0].Requests != 2 || one[0].Org != "" || one[0].Start != grouped.Sums[0].Start || !reflect.DeepEqual(grouped.Total, all.Sums[0]) || !reflect.DeepEqual(all.Total, all.Sums[0]) || all.Times != nil {
		t.Errorf("%+v", grouped)
	}
	own := read[usageView](t, w.send(billing, "GET", "/api/v1/usage?group=org", ""), 200)
	if len(own.Sums) != 1 || own.Sums[0].Org != "b" || own.Sums[0].Requests != 1 {
		t.Errorf("%+v", own)
	}
	for _, query := range []string{
		"group=weather", "group=day,hour", "team=t", "from=yesterday", "from=2030-01-01T00:00:00Z", "from=2001-01-01T00:00:00Z", "group=day,org,team,key,model",
	} {
		w.refusal(w.send(owner, "GET", "/api/v1/usage?"+query, ""), http.StatusUnprocessableEntity, "invalid")
	}
}

// TestLabels checks sums and lists by tag and end user, and that an operator sees only those of its own
// organisation.
func TestLabels(t *testing.T) {
	w := newWorld(t).serve()
	owner, billing, auditor := w.operator(access.Owner, ""), w.operator(access.Billing, "b"), w.operator(access.Auditor, "b")
	began := time.Now().Add(-time.Hour)
	var rows []usage.Row
	for i, org := range []string{"a", "a", "b"} {
		rows = append(rows, usage.Row{ID: "20000000-0000-4000-8000-00000000000" + string(rune('0'+i)), Org: org, Began: began, Model: "tagged", Outcome: usage.Answered,
			Cost: new(usage.Money(1000)), Labels: usage.Labels{User: "u-" + org, Tags: []usage.Tag{{Key: "team", Value: "search"}}}})
	}
	w.append("labels", rows)
	type sum struct {
		org, tag, user string
		requests       int64
	}
	sums := func(as, query string) (list []sum) {
		t.Helper()
		for _, s := range read[usageView](t, w.send(as, "GET", "/api/v1/usage?"+query, ""), 200).Sums {
			list = append(list, sum{s.Org, s.Tag, s.User, s.Requests})
		}
		return list
	}
	for _, c := range []struct {
		as, query string
		want      []sum
	}{
		{owner, "group=tag:team", []sum{{"", "", "", 2}, {"", "search", "", 3}}},
		{owner, "group=org,tag:team&model=tagged", []sum{{"a", "search", "", 2}, {"b", "search", "", 1}}},
		{owner, "group=user&model=tagged", []sum{{"", "", "u-a", 2}, {"", "", "u-b", 1}}},
		{owner, "group=org&tag=team:search", []sum{{"a", "", "", 2}, {"b", "", "", 1}}},
		{owner, "user=u-a", []sum{{"", "", "", 2}}},
		{owner, "group=tag:other", []sum{{"", "", "", 5}}},
		{billing, "group=tag:team", []sum{{"", "", "", 1}, {"", "search", "", 1}}},
		{billing, "group=user", []sum{{"", "", "", 1}, {"", "", "u-b", 1}}},
		{billing, "user=u-a", []sum{{"", "", "", 0}}},
	} {
		if got := sums(c.as, c.query); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.query, got, c.want)
		}
	}
	for query, want := range map[string]int{"tag=team:search": 1, "user=u-b": 1, "user=u-a": 0, "tag=team:nope": 0, "user=u-b&tag=team:search": 1} {
		list := read[requestList](t, w.send(auditor, "GET", "/api/v1/requests?"+query, ""), 200)
		if len(list.Requests) != want {
			t.Errorf("%s: %+v", query, list)
		}
		for _, r := range list.Requests {
			if r.User != "u-b" || !slices.Equal(r.Tags, []amounts.TagView{{Key: "team", Value: "search"}}) {
				t.Errorf("%+v", r)
			}
		}
	}
	document := w.send("", "GET", "/api/openapi.json", "").body
	for _, want := range []string{`"items":{"type":"string","pattern":"^(hour|day|org|team|key|model|target|user|tag:[a-z0-9_.-]{1,32})$"}`, `"name":"tag"`, `"TagView"`} {
		if !strings.Contains(document, want) {
			t.Errorf("the document has no %s", want)
		}
	}
	for _, query := range []string{"group=tag:", "group=tag:A", "group=tag:a'b", "group=user,tag:team", "group=tag:a,tag:b", "tag=team", "tag=:x", "tag=a:", "user=u&tag=a:b", "user=a%00b"} {
		w.refusal(w.send(owner, "GET", "/api/v1/usage?"+query, ""), http.StatusUnprocessableEntity, "invalid")
	}
}

func TestRequests(t *testing.T) {
	w := newWorld(t).serve()
	owner, auditor := w.operator(access.Owner, ""), w.operator(access.Auditor, "a")
	one := read[amounts.RequestView](t, w.send(auditor, "GET", "/api/v1/requests/"+requestOf("a"), ""), 200)
	if one.Org != "a" || one.Cost != "0.0000015" || one.Took != 1 || len(one.Attempts) != 2 || one.Attempts[0].Fault != "unavailable" || !one.Attempts[1].Charged || one.Attempts[0].Charged {
		t.Errorf("%+v", one)
	}
	last := one.Attempts[1]
	if *one.Person != (amounts.PersonView{ID: "ka", Name: "Ada a"}) || one.UserAgent != "curl/8" || one.Trace != "0af7" || one.Fidelity != "dropped" || !slices.Equal(one.Losses, []amounts.RequestLoss{{Code: "seed.unsupported", Path: "seed"}}) || one.MoreLoss != 1 ||
		one.Queue != 0.001 || one.FirstByte != 0.002 || one.Token != 0.3 || last.Connect != 0.001 || last.FirstByte != 0.002 || last.Token != 0.003 ||
		!reflect.DeepEqual(*last.Prices, amounts.PricesView{Input: "0.1", CacheRead: "0", CacheWrite: "0", Output: "0.1", Reasoning: "0", Request: "0"}) || one.Attempts[0].Prices != nil {
		t.Errorf("%+v %+v", one, last)
	}
	for query, want := range map[string]int{"fidelity=dropped": 1, "fidelity=exact": 0, "person=Ada%20a": 1, "person=Ada": 0, "person=person_x": 0, "status=200": 1, "status=500": 0,
		"min_cost=0.0000015": 1, "min_cost=0.000002": 0, "min_took=0.9": 1, "min_took=1.1": 0} {
		if list := read[requestList](t, w.send(auditor, "GET", "/api/v1/requests?"+query, ""), 200); len(list.Requests) != want {
			t.Errorf("%s: %+v", query, list)
		}
	}
	for _, query := range []string{"fidelity=good", "status=1", "min_cost=1e3", "min_took=-1"} {
		w.refusal(w.send(owner, "GET", "/api/v1/requests?"+query, ""), http.StatusUnprocessableEntity, "invalid")
	}
	w.refusal(w.send(auditor, "GET", "/api/v1/requests/"+requestOf("b"), ""), http.StatusNotFound, "not_found")

	began := time.Now().Add(-time.Hour)
	var rows []usage.Row
	for i := range 5 {
		rows = append(rows, usage.Row{ID: "10000000-0000-4000-8000-00000000000" + string(rune('0'+i)), Org: "a", Began: began, Model: "other", Outcome: usage.Failed, Usage: llm.Usage{}})
	}
	w.append("usage", rows)
	seen, after := map[string]bool{}, ""
	for {
		list := read[requestList](t, w.send(auditor, "GET", "/api/v1/requests?model=other&outcome=failed&limit=2&after="+after, ""), 200)
		for _, r := range list.Requests {
			if seen[r.ID] || r.Model != "other" || r.Cost != "" {
				t.Errorf("%+v", r)
			}
			seen[r.ID] = true
		}
		if after = list.Next; after == "" {
			break
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d requests", len(seen))
	}
	for _, query := range []string{"after=x", "after=1-", "outcome=good"} {
		w.refusal(w.send(owner, "GET", "/api/v1/requests?"+query, ""), http.StatusUnprocessableEntity, "invalid")
	}
}

func TestLimitsInUse(t *testing.T) {
	w := newWorld(t)
	owner := w.operator(access.Owner, "")
	id, _ := w.key(access.Record{Org: "a", Limit: quota.Limit{Requests: 9, Budget: 3 * usage.Dollar}})
	w.serve()
	for path, account := range map[string]string{"/keys/" + id: "key:" + id, "/orgs/a": "org:a", "/orgs/a/teams/t": "team:a/t"} {
		u := read[useView](t, w.send(owner, "GET", prefix+path+"/limits", ""), 200)
		if u.Account != account || u.Requests != 3 || u.Tokens != 40 || u.Concurrency != 1 {
			t.Errorf("%+v", u)
		}
		if strings.HasPrefix(account, "key:") && (u.Spent != "1.5" || u.Limits.Budget != "3" || u.Limits.Requests != 9) {
			t.Errorf("%+v", u)
		}
	}
	several, _ := w.key(access.Record{Org: "a", Limit: quota.Limit{Requests: 9, Budget: 2 * usage.Dollar, Window: time.Hour, More: "8000000000/86400000000000"}})
	u := read[useView](t, w.send(owner, "GET", "/api/v1/keys/"+several+"/limits", ""), 200)
	if want := []budgetUse{{"2", 3600, "1"}, {"8", 86400, "4"}}; u.Spent != "1" || !reflect.DeepEqual(u.Budgets, want) {
		t.Errorf("%+v", u)
	}
	w.options.Limits = nil
	w.serve()
	w.refusal(w.send(owner, "GET", "/api/v1/orgs/a/limits", ""), http.StatusNotImplemented, "not_kept")
}

func TestReload(t *testing.T) {
	w := newWorld(t).serve()
	admin := w.operator(access.Admin, "")
	read[Configuration](t, w.send(admin, "POST", "/api/v1/config/reload", ""), 200)
	w.config.mistakes = []openapi.Mistake{{Line: 14, Location: "providers.x.base_url", Message: `it has no scheme; write "https://api.x.ai"`}}
	g := w.send(admin, "POST", "/api/v1/config/reload", "")
	w.refusal(g, http.StatusUnprocessableEntity, "config_mistakes")
	if p := read[openapi.Problem](t, g, 422); len(p.Errors) != 1 || p.Errors[0] != w.config.mistakes[0] {
		t.Errorf("%+v", p)
	}
	w.config.mistakes, w.config.err = nil, errors.New("permission denied")
	w.refusal(w.send(admin, "POST", "/api/v1/config/reload", ""), http.StatusServiceUnavailable, "config_unreadable")
	if list := w.entries("reload-config"); w.config.reloads != 3 || len(list) != 5 || list[2].Detail != "failed: config_mistakes" {
		t.Errorf("%d reloads, %+v", w.config.reloads, list)
	}
}

// TestTenants creates, changes and blocks organisations and teams.
func TestTenants(t *testing.T) {
	w := newWorld(t).serve()
	owner := w.operator(access.Owner, "")
	made := read[tenantView](t, w.send(owner, "POST", "/api/v1/orgs", `{"id":"c","name":"Cee","limits":{"budget":"100","window_seconds":3600}}`), http.StatusCreated)
	if !reflect.DeepEqual(made.Limits, limits{Budget: "100", Window: 3600}) || made.Name != "Cee" {
		t.Errorf("%+v", made)
	}
	w.refusal(w.send(owner, "POST", "/api/v1/orgs", `{"id":"c"}`), http.StatusConflict, "exists")
	changed := read[tenantView](t, w.send(owner, "PATCH", "/api/v1/orgs/c", `{"blocked":true,"limits":{"concurrency":4}}`), 200)
	if !changed.Blocked || !reflect.DeepEqual(changed.Limits, limits{Concurrency: 4, Budget: "100", Window: 3600}) || changed.Name != "Cee" {
		t.Errorf("%+v", changed)
	}
	list := read[orgList](t, w.send(owner, "GET", "/api/v1/orgs?limit=2", ""), 200)
	if len(list.Orgs) != 2 || list.Orgs[0].ID != "a" || list.Next != "b" {
		t.Errorf("%+v", list)
	}
	if rest := read[orgList](t, w.send(owner, "GET", "/api/v1/orgs?after=b", ""), 200); len(rest.Orgs) != 2 || rest.Orgs[0].ID != "c" || rest.Orgs[1].ID != "default" {
		t.Errorf("%+v", rest)
	}
	team := read[tenantView](t, w.send(owner, "POST", "/api/v1/orgs/c/teams", `{"id":"red"}`), http.StatusCreated)
	if team.Org != "c" || team.Blocked {
		t.Errorf("%+v", team)
	}
	w.refusal(w.send(owner, "POST", "/api/v1/orgs/c/teams", `{"id":"red"}`), http.StatusConflict, "exists")
	w.refusal(w.send(owner, "POST", "/api/v1/keys", `{"name":"n","org":"c","team":"blue"}`), http.StatusNotFound, "not_found")
	if teams := read[teamList](t, w.send(owner, "GET", "/api/v1/orgs/c/teams", ""), 200); len(teams.Teams) != 1 {
		t.Errorf("%+v", teams)
	}
	// An operator of the organisation cannot change it.
	inside := w.operator(access.Owner, "a")
	w.refusal(w.send(inside, "PATCH", "/api/v1/orgs/a", `{"blocked":true}`), http.StatusConflict, "own_key_inside")
}
