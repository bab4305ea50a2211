package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// port is a port at which people sign in.
type port struct {
	name, callback, origin string
	admin                  bool
}

func ports() []port {
	return []port{{"device", "/oauth/callback", peopleURL, false}, {"operator", "/login/callback", operatorsURL, true}}
}

// Cookies of the sign-in. The addresses are loopback, so they have no prefix.
const (
	attemptCookie = "isogloss-attempt"
	sessionCookie = "isogloss-session"
)

func signInAttacks() (all []attack) {
	for _, list := range [][]attack{cookieAttacks(), answerAttacks(), deviceAttacks(), floodsWithoutKey(), sessionAttacks(), ownAttacks(), revokedAttacks()} {
		all = append(all, list...)
	}
	return all
}

// setCookie returns the value of a cookie that a response sets.
func setCookie(e *evidence, name string) string {
	for _, c := range (&http.Response{Header: e.header}).Cookies() {
		if c.Name == name && c.Value != "" {
			return c.Value
		}
	}
	return ""
}

// form sends a form.
func (r *rig) form(ctx context.Context, path, from string, values url.Values, headers ...string) *evidence {
	return r.send(ctx, request{path: path, media: "application/x-www-form-urlencoded", body: values.Encode(), from: from, headers: headers})
}

// startDevice begins the sign-in of a device and returns its codes.
func (r *rig) startDevice(ctx context.Context, from string) (device, user string) {
	o := testrig.Parse([]byte(r.form(ctx, "/oauth/device_authorization", from, url.Values{"client_id": {"x"}}).body))
	return o.Str("device_code"), o.Str("user_code")
}

// begin begins a sign-in in a browser. It returns the cookie of the attempt, and the state and nonce that the
// issuer gets. The weak gateway has none of them.
func (r *rig) begin(ctx context.Context, p port, from string) (cookie, state, nonce string) {
	var e *evidence
	if p.admin {
		e = r.send(ctx, request{method: "GET", path: "/login", admin: true, from: from})
	} else {
		_, user := r.startDevice(ctx, from)
		e = r.form(ctx, "/device", from, url.Values{"user_code": {user}})
	}
	onward := strings.ReplaceAll(e.body+" "+e.header.Get("Location"), "&amp;", "&")
	if m := regexp.MustCompile(`/authorize\?([^"'\s<>]+)`).FindStringSubmatch(onward); m != nil {
		q, _ := url.ParseQuery(m[1]) // what cannot be parsed is empty
		state, nonce = q.Get("state"), q.Get("nonce")
	}
	cookie = setCookie(e, attemptCookie)
	if !r.weak && (cookie == "" || state == "" || nonce == "") {
		testrig.NoError(fmt.Errorf("a sign-in does not begin: status %d: %s", e.status, testrig.Clip(e.body, 300)))
	}
	return cookie, state, nonce
}

// finish sends the answer of the issuer to a port.
func (r *rig) finish(ctx context.Context, p port, from, cookie string, answer url.Values) *evidence {
	q := request{method: "GET", path: p.callback + "?" + answer.Encode(), admin: p.admin, from: from}
	if cookie != "" {
		q.headers = []string{"Cookie", attemptCookie + "=" + cookie}
	}
	return r.send(ctx, q)
}

// audited returns the number of entries of the audit log.
func (r *rig) audited(ctx context.Context) int {
	n, after := 0, ""
	for page := 0; page < 50; page++ {
		o := testrig.Parse([]byte(r.send(ctx, request{method: "GET", path: "/api/v1/audit?limit=1000" + after, key: "owner", admin: true}).body))
		n += len(o.List("items"))
		if o.Str("next") == "" {
			break
		}
		after = "&after=" + url.QueryEscape(o.Str("next"))
	}
	return n
}

// cookieAttacks forge the cookie of an attempt. None reaches the issuer or the audit log.
func cookieAttacks() (all []attack) {
	sum := func(origin, text string, key []byte) string {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(origin + "\x00" + text)) // never fails
		return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	const invented = "STATE.nonce.verifier."
	ends := fmt.Sprint(time.Now().Add(time.Hour).Unix())
	forge := map[string]func(p port, valid string) string{
		"none": func(port, string) string { return "" }, "invented": func(port, string) string { return invented + "code." + ends }, "no-mac": func(_ port, v string) string { return v[:strings.LastIndexByte(v, '.')] }, "empty-mac": func(_ port, v string) string { return v[:strings.LastIndexByte(v, '.')+1] },
		"zero-mac":  func(_ port, v string) string { return v[:strings.LastIndexByte(v, '.')+1] + strings.Repeat("A", 43) },
		"empty-key": func(p port, _ string) string { return sum(p.origin, invented+"code."+ends, nil) }, "id-as-key": func(p port, _ string) string { return sum(p.origin, invented+"code."+ends, []byte(gatewayID)) }, "name-as-key": func(p port, _ string) string {
			return sum(p.origin, invented+"code."+ends, []byte("cookies of sign-ins"))
		},
		"code-changed": func(_ port, v string) string {
			part := strings.Split(v, ".")
			part[3] += "x"
			return strings.Join(part, ".")
		}, "state-changed": func(_ port, v string) string { return "STATE" + v[strings.IndexByte(v, '.'):] }, "nonce-changed": func(_ port, v string) string {
			part := strings.Split(v, ".")
			part[1] = "n"
			return strings.Join(part, ".")
		},
		"longer": func(_ port, v string) string {
			part := strings.Split(v, ".")
			part[4] += "0"
			return strings.Join(part, ".")
		}, "shifted": func(_ port, v string) string { return strings.Replace(v, ".", "..", 1) }, "twice": func(_ port, v string) string { return v + "; " + attemptCookie + "=" + invented }, "quoted": func(_ port, v string) string { return `"` + v + `x"` },
		"long": func(_ port, v string) string { return v + strings.Repeat("a", 6000) }, "mac-last-bit": func(_ port, v string) string { return otherSpelling(v) + "A" }, "percent": func(_ port, v string) string { return strings.ReplaceAll(v, ".", "%2e") },
	}
	for i, p := range ports() {
		for name, change := range forge {
			do := func(ctx context.Context, r *rig) *evidence {
				from := addressed(30000 + i*100 + len(name))
				cookie, state, nonce := r.begin(ctx, p, from)
				if cookie == "" {
					cookie = "a.b.c.d.1.e"
				}
				cookie = change(p, cookie)
				if strings.Contains(cookie, "STATE") {
					cookie, state = strings.Replace(cookie, "STATE", "s", 1), "s"
				}
				return r.unnoticed(ctx, func() *evidence {
					return r.finish(ctx, p, from, cookie, url.Values{"state": {state}, "code": {r.issuer.approve(nonce)}})
				})
			}
			if name == "twice" { // the first cookie is the valid one, and holds
				continue
			}
			all = append(all, attack{name: "signin/cookie/" + p.name + "/" + name, do: do, holds: []oracle{refuses(400, 431), noSession}})
		}
	}
	return all
}

// unnoticed makes an attack, and fails if it reached the issuer or the audit log.
func (r *rig) unnoticed(ctx context.Context, do func() *evidence) *evidence {
	calls, entries := r.issuer.count("/token"), r.audited(ctx)
	e := do()
	e.problem(r.issuer.count("/token") > calls, "the issuer was called")
	now := r.audited(ctx)
	e.problem(now > entries, "the audit log has %d entries more", now-entries)
	return e
}

// noSession fails if the response has the cookie of a session.
func noSession(_ *rig, e *evidence) string {
	return testrig.When(setCookie(e, sessionCookie) != "", "the response has a session")
}

// answerAttacks answer a valid attempt with what is not the issuer's answer to it.
func answerAttacks() (all []attack) {
	type answer struct {
		values func(v url.Values, p port)
		id     func(i *issuer, nonce string) string
	}
	claims := func(changes func(i *issuer, nonce string) map[string]any) func(*issuer, string) string {
		return func(i *issuer, nonce string) string {
			c := map[string]any{"aud": gatewayID, "nonce": nonce}
			for k, v := range changes(i, nonce) {
				c[k] = v
			}
			return i.sign("EdDSA", i.claims("main", c))
		}
	}
	set := func(name, value string) func(url.Values, port) {
		return func(v url.Values, _ port) { v.Set(name, value) }
	}
	list := map[string]answer{
		"state-other": {values: set("state", "other")}, "state-empty": {values: set("state", "")}, "state-none": {values: func(v url.Values, _ port) { v.Del("state") }}, "state-second": {values: func(v url.Values, _ port) { v["state"] = []string{"x", v.Get("state")} }}, "state-upper": {values: func(v url.Values, _ port) { v.Set("state", strings.ToUpper(v.Get("state"))) }},
		"iss-other": {values: set("iss", "https://evil.example")}, "iss-longer": {values: func(v url.Values, _ port) { v.Set("iss", v.Get("iss")+"x") }}, "error": {values: set("error", "access_denied")}, "code-none": {values: func(v url.Values, _ port) { v.Del("code") }}, "code-unknown": {values: set("code", "unknown")}, "code-sql": {values: set("code", "' OR 1=1 --")},
		"nonce-other": {id: claims(func(*issuer, string) map[string]any { return map[string]any{"nonce": "other"} })}, "nonce-none": {id: claims(func(*issuer, string) map[string]any { return map[string]any{"nonce": nil} })}, "nonce-list": {id: claims(func(_ *issuer, n string) map[string]any { return map[string]any{"nonce": []string{n}} })}, "nonce-case": {id: claims(func(_ *issuer, n string) map[string]any { return map[string]any{"nonce": strings.ToUpper(n)} })},
		"audience-other": {id: claims(func(*issuer, string) map[string]any { return map[string]any{"aud": "other"} })}, "issuer-other": {id: claims(func(i *issuer, _ string) map[string]any { return map[string]any{"iss": i.url("hr")} })}, "expired": {id: claims(func(*issuer, string) map[string]any { return map[string]any{"exp": 1} })}, "nonce-twice": {id: func(i *issuer, n string) string {
			return signMembers("", func(m string) string { return m + `,"aud":"` + gatewayID + `","nonce":"x","nonce":"` + n + `"` }).make(i)
		}},
		"unsigned": {id: func(i *issuer, n string) string {
			return encode(`{"alg":"none"}`) + "." + encode(testrig.Compact(i.claims("main", map[string]any{"aud": gatewayID, "nonce": n}))) + "."
		}}, "no-jwt": {id: func(*issuer, string) string { return "opaque" }}, "other-key": {id: func(i *issuer, n string) string {
			return i.signText(`{"alg":"EdDSA","kid":"rsa"}`, testrig.Compact(i.claims("main", map[string]any{"aud": gatewayID, "nonce": n})))
		}},
	}
	for i, p := range ports() {
		for name, a := range list {
			do := func(ctx context.Context, r *rig) *evidence {
				from := addressed(31000 + i*100 + len(name))
				cookie, state, nonce := r.begin(ctx, p, from)
				v := url.Values{"state": {state}, "iss": {r.issuer.url("main")}, "code": {r.issuer.approve(nonce)}}
				if a.values != nil {
					a.values(v, p)
				}
				if a.id != nil {
					r.issuer.sendID(a.id(r.issuer, nonce))
					defer r.issuer.sendID("")
				}
				return r.finish(ctx, p, from, cookie, v)
			}
			all = append(all, attack{name: "signin/answer/" + p.name + "/" + name, do: do, holds: []oracle{refuses(400, 403), noSession}})
		}
	}
	return all
}

func (p *issuer) sendID(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idToken = token
}

// deviceAttacks ask for the tokens of a device without its code.
func deviceAttacks() (all []attack) {
	add := func(name string, values func(device, user string) url.Values) {
		from := addressed(32000 + len(all))
		do := func(ctx context.Context, r *rig) *evidence {
			device, user := r.startDevice(ctx, from)
			return r.form(ctx, "/oauth/token", from, values(device, user))
		}
		all = append(all, attack{name: "signin/device/" + name, do: do, holds: []oracle{refuses(400, 401, 413, 415), lacks(`"access_token"`)}})
	}
	const grant = "urn:ietf:params:oauth:grant-type:device_code"
	for name, code := range map[string]func(device, user string) string{"pending": func(d, _ string) string { return d }, "user-code": func(_, u string) string { return u }, "empty": func(string, string) string { return "" }, "longer": func(d, _ string) string { return d + "x" }, "shorter": func(d, _ string) string { return d[:max(0, len(d)-1)] },
		"case": func(d, _ string) string { return strings.ToUpper(d) }, "sql": func(string, string) string { return "' OR '1'='1" }, "like": func(string, string) string { return "%" }, "nul": func(d, _ string) string { return d + "\x00" }, "long": func(string, string) string { return strings.Repeat("a", 70<<10) }} {
		add(name, func(d, u string) url.Values { return url.Values{"grant_type": {grant}, "device_code": {code(d, u)}} })
	}
	for name, kind := range map[string]string{"password": "password", "client": "client_credentials", "code": "authorization_code", "none": "", "implicit": "implicit", "case": strings.ToUpper(grant)} {
		add("grant-"+name, func(d, _ string) url.Values {
			return url.Values{"grant_type": {kind}, "device_code": {d}, "username": {"ann"}, "password": {"x"}, "code": {d}}
		})
	}
	for name, headers := range map[string][]string{"origin": {"Origin", "https://evil.example"}, "cross-site": {"Sec-Fetch-Site", "cross-site"}, "same-site": {"Sec-Fetch-Site", "same-site"}, "origin-null": {"Origin", "null"}} {
		do := func(ctx context.Context, r *rig) *evidence { // a page makes the browser of a person start
			_, user := r.startDevice(ctx, addressed(33000+len(name)))
			return r.form(ctx, "/device", addressed(33000+len(name)), url.Values{"user_code": {user}}, headers...)
		}
		all = append(all, attack{name: "signin/page/" + name, do: do, holds: []oracle{refuses(403), lacks("/authorize?")}})
	}
	link := func(ctx context.Context, r *rig) *evidence { // a link does not start by itself
		_, user := r.startDevice(ctx, addressed(33100))
		e := r.send(ctx, request{method: "GET", path: "/device?user_code=" + url.QueryEscape(user), from: addressed(33100)})
		e.problem(setCookie(e, attemptCookie) != "", "a link starts a sign-in")
		e.problem(!strings.Contains(e.body, "<form"), "the page has no form that a person sends")
		return e
	}
	return append(all, attack{name: "signin/page/link", do: link, holds: []oracle{lacks("/authorize?")}})
}

// floodsWithoutKey make calls for which no key is needed, more than an address may make.
func floodsWithoutKey() (all []attack) {
	add := func(name string, most int, do func(ctx context.Context, r *rig, i int, from string) *evidence) {
		from := addressed(34000 + len(all))
		flood := func(ctx context.Context, r *rig) *evidence {
			calls, entries := r.issuer.count("/token")+r.issuer.count("/revoke"), r.audited(ctx)
			var e *evidence
			for i := range 40 {
				e = do(ctx, r, i, from)
			}
			reached := r.issuer.count("/token") + r.issuer.count("/revoke") - calls
			e.problem(reached > most, "%d of 40 calls reached the issuer", reached)
			more := r.audited(ctx) - entries
			e.problem(more > 2, "the audit log has %d entries more", more)
			return e
		}
		all = append(all, attack{name: "signin/flood/" + name, do: flood, holds: []oracle{serves(400, 429)}})
	}
	add("refresh", 20, func(ctx context.Context, r *rig, i int, from string) *evidence {
		return r.form(ctx, "/oauth/token", from, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {fmt.Sprint("unknown-", i)}})
	})
	add("revoke", 20, func(ctx context.Context, r *rig, i int, from string) *evidence {
		return r.form(ctx, "/oauth/revoke", from, url.Values{"token": {fmt.Sprint("unknown-", i)}})
	})
	add("revoke-forged", 20, func(ctx context.Context, r *rig, i int, from string) *evidence {
		token := encode(header("EdDSA")) + "." + encode(testrig.Compact(r.issuer.claims("main", map[string]any{"jti": fmt.Sprint(i)}))) + ".AAAA"
		return r.form(ctx, "/oauth/revoke", from, url.Values{"token": {token}})
	})
	add("user-codes", 0, func(ctx context.Context, r *rig, i int, from string) *evidence {
		return r.form(ctx, "/device", from, url.Values{"user_code": {"BCDFGHJ" + string("BCDFGHJKLMNPQRSTVWXZ"[i%20])}})
	})
	add("device-codes", 0, func(ctx context.Context, r *rig, _ int, from string) *evidence {
		return r.form(ctx, "/oauth/device_authorization", from, url.Values{"client_id": {"x"}})
	})
	for _, p := range ports() {
		add("callback-"+p.name, 0, func(ctx context.Context, r *rig, i int, from string) *evidence {
			cookie := fmt.Sprintf("s.n.v.%d.%d.x", i, time.Now().Add(time.Hour).Unix())
			return r.finish(ctx, p, from, cookie, url.Values{"state": {"s"}, "code": {"x"}, "error": {fmt.Sprint("e", i)}})
		})
		add("refused-"+p.name, 0, func(ctx context.Context, r *rig, i int, from string) *evidence { // with an attempt that is valid
			if i > 12 {
				return r.finish(ctx, p, from, "", url.Values{})
			}
			cookie, state, _ := r.begin(ctx, p, from)
			e := r.finish(ctx, p, from, cookie, url.Values{"state": {state}, "error": {"access_denied"}})
			e.status = 400
			if r.weak {
				e.status = 200
			}
			return e
		})
	}
	return append(all, attack{name: "signin/flood/slow", do: slowRenewals, unproven: "the weak gateway renews nothing"})
}

// slowRenewals fill what waits for the issuer from one address. Others still get an answer of the issuer.
func slowRenewals(ctx context.Context, r *rig) *evidence {
	if r.weak {
		return &evidence{}
	}
	hold := make(chan struct{})
	r.issuer.set(hold)
	before := r.issuer.count("/token")
	renew := func(from string) *evidence {
		return r.form(ctx, "/oauth/token", from, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"unknown-of-" + from}})
	}
	var work sync.WaitGroup
	statuses := make([]string, 40)
	for i := range statuses {
		work.Go(func() {
			var e *evidence
			if testrig.Run(func() { e = renew(addressed(35000)) }) == nil {
				statuses[i] = strconv.Itoa(e.status)
			}
		})
	}
	e := &evidence{sent: "40 renewals from one address while the issuer does not answer"}
	waiting := func() int { return r.issuer.count("/token") - before }
	err := testrig.Until(ctx, patience, "no renewal reaches the issuer", func() bool { return waiting() >= 8 })
	e.problem(err != nil, "%v", err)
	work.Go(func() { _ = testrig.Run(func() { renew(addressed(35001)) }) })
	at := waiting()
	err = testrig.Until(ctx, patience, "the renewal of another address does not reach the issuer", func() bool { return waiting() > at })
	e.problem(err != nil, "%v", err)
	n := waiting()
	r.issuer.set(nil)
	close(hold)
	work.Wait()
	e.got = strings.Join(statuses, " ")
	e.problem(n > 16, "%d renewals of one address wait for the issuer", n)
	e.problem(!strings.Contains(e.got, "503") && !strings.Contains(e.got, "429"), "no renewal is refused")
	return e
}

func (p *issuer) set(hold chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = hold
}
