package mine

import (
	"context"
	_ "embed" // the page
	"errors"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/webpage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/llm"
)

//go:embed page.html
var source string

// policy allows the page's own style and its forms, and nothing else: the page has no script.
var policy = webpage.Policy(source, "'self'")

// page is the text of the page. Values are between tags or in quotes, and each is escaped. It is not a template, as the
// first page of the port is not (internal/edge/welcome).
type page struct{ strings.Builder }

// add adds HTML. Each %s stands for a text, which is escaped.
func (p *page) add(format string, texts ...string) {
	escaped := make([]any, len(texts))
	for i, t := range texts {
		escaped[i] = html.EscapeString(t)
	}
	fmt.Fprintf(p, format, escaped...)
}

func (p *page) write(w http.ResponseWriter, status int) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(strings.Replace(source, "<!-- body -->", p.String(), 1))) // the browser may have disconnected
}

// notice is what a form has brought about.
type notice struct {
	fault *llm.Error
	made  *keyMade // a key to copy
	done  string
}

func (s *server) showPage(w http.ResponseWriter, r *http.Request) { s.render(w, r, notice{}) }

// postPage runs a form of the page, which only the page itself can send.
func (s *server) postPage(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if r.Header.Get("Sec-Fetch-Site") != "same-origin" {
		s.render(w, r, notice{fault: &llm.Error{Kind: llm.Permission, Message: "this form was not sent by this page; open the page and try again"}})
		return
	}
	if err := r.ParseForm(); err != nil {
		s.render(w, r, notice{fault: invalid("", "the form is too large or cannot be read")})
		return
	}
	switch sessions := s.SignIn(); r.PostForm.Get("do") {
	case "key":
		c, err := sessions.BeginVisit(r.Context(), r, strings.TrimSpace(r.PostForm.Get("key")))
		if err != nil {
			s.render(w, r, notice{fault: asFault(err)})
			return
		}
		http.SetCookie(w, c)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Location", "my-usage") // http.Redirect would leave base_path out
		w.WriteHeader(http.StatusSeeOther)
	case "account":
		if !sessions.SignsIn() {
			http.NotFound(w, r)
			return
		}
		sessions.StartVisit(w, r)
	case "sign-out":
		if err := sessions.EndVisit(w, r); err != nil {
			s.render(w, r, notice{fault: asFault(err)})
		}
	default:
		out, fault := s.call(s.runForm, r)
		n, _ := out.(notice)
		n.fault = fault
		s.render(w, r, n)
	}
}

// runForm changes the keys of a person.
func (s *server) runForm(ctx context.Context, v access.Visitor, r *http.Request) (any, *llm.Error) {
	id := r.PostForm.Get("id")
	switch r.PostForm.Get("do") {
	case "create":
		in := keyIn{Name: r.PostForm.Get("name"), Models: strings.FieldsFunc(r.PostForm.Get("models"), func(c rune) bool { return c == ',' || c == ' ' })}
		if days := r.PostForm.Get("days"); days != "" {
			n, err := strconv.Atoi(days)
			if err != nil || n < 1 || n > 366 {
				return nil, invalid("days", "expected 1 to 366 days")
			}
			in.Expires = time.Now().AddDate(0, 0, n).Format(time.RFC3339)
		}
		made, fault := s.create(ctx, v, r, in)
		return notice{made: made}, fault
	case "rotate":
		made, fault := s.rotate(ctx, v, r, id, rotateIn{})
		return notice{made: made}, fault
	case "revoke":
		key, fault := s.revoke(ctx, v, r, id)
		if fault != nil {
			return nil, fault
		}
		return notice{done: "The key " + key.Name + " is revoked."}, nil
	}
	return nil, invalid("do", "the form is not one of this page")
}

// asFault returns an error as one for clients.
func asFault(err error) *llm.Error {
	var fault *llm.Error
	if errors.As(err, &fault) {
		return fault
	}
	return unavailable(err)
}

// view is what the page shows.
type view struct {
	client *clientView
	usage  *usageView
}

// render writes the page for the client of a session, or the form to sign in.
func (s *server) render(w http.ResponseWriter, r *http.Request, n notice) {
	var p page
	status := http.StatusOK
	if n.fault != nil {
		status = n.fault.HTTPStatus()
	}
	out, fault := any(nil), &llm.Error{Kind: llm.Authentication}
	if s.SignIn().HasVisit(r) && r.Header.Get("Authorization") == "" {
		out, fault = s.call(s.view, r)
	}
	if fault != nil && fault.Message != "" && n.fault == nil {
		n.fault, status = fault, fault.HTTPStatus()
	}
	if v, ok := out.(view); ok {
		p.head(v.client)
		p.notice(n)
		p.body(v)
	} else {
		p.add("<header><h1>My usage</h1></header>\n")
		p.notice(n)
		p.signIn(s.SignIn().SignsIn())
	}
	p.write(w, status)
}

func (s *server) view(ctx context.Context, v access.Visitor, _ *http.Request) (any, *llm.Error) {
	c, fault := s.client(ctx, v)
	if fault != nil {
		return nil, fault
	}
	u, fault := s.usage(ctx, v, defaultDays)
	return view{c, u}, fault
}

func (p *page) notice(n notice) {
	if n.fault != nil {
		p.add("<p role=\"alert\">%s</p>\n", n.fault.Message)
	}
	if n.done != "" {
		p.add("<p role=\"status\">%s</p>\n", n.done)
	}
	if n.made != nil {
		p.add("<div role=\"status\"><p>The key <b>%s</b> is ready. Copy it now: it is not stored, and nobody can show it again.</p>\n<p><code>%s</code></p></div>\n", n.made.Key.Name, n.made.Text)
	}
}

func (p *page) signIn(account bool) {
	p.add("<p>What you have used, your limits and budgets, and the last requests that were refused.</p>\n")
	if account {
		p.add("<form method=\"post\"><input type=\"hidden\" name=\"do\" value=\"account\"><p><button>Sign in with the company account</button></p></form>\n<h2>Or with a key</h2>\n")
	}
	p.add(`<form method="post"><input type="hidden" name="do" value="key">
<div class="fields"><label>Key <input name="key" type="password" placeholder="gw_live_…" autocomplete="off" spellcheck="false" maxlength="200" required></label><button>Use this key</button></div>
<p class="hint">The key begins a session of up to 12 hours in this browser. It is not kept.</p></form>
`)
}

func (p *page) head(c *clientView) {
	name := c.Name
	if name == "" {
		name = c.ID
	}
	p.add("<header><h1>My usage</h1><form method=\"post\"><input type=\"hidden\" name=\"do\" value=\"sign-out\"><b>%s</b> <span class=\"hint\">%s</span> <button>Sign out</button></form></header>\n",
		name, strings.Trim(c.Org+" / "+c.Team, " /"))
}

func (p *page) body(v view) {
	u := v.usage
	p.add("<p>Since %s: <b>$%s</b> for %s requests. Failed: %s. Refused: %s.</p>\n", u.From.Format(time.DateOnly), u.Total.Cost, number(u.Total.Requests), number(u.Total.Errors), number(u.Total.Refused))
	p.budgets(v.client)
	if v.client.Person && (v.client.OwnKeys != nil || len(v.client.Keys) > 0) {
		p.keys(v.client)
	}
	p.days(u)
	p.refusals(u)
}

func (p *page) budgets(c *clientView) {
	p.add("<h2>Limits and budgets</h2>\n")
	if len(c.Budgets) == 0 && len(c.Limits) == 0 {
		p.add("<p>You have none.</p>\n")
	}
	for _, b := range c.Budgets {
		p.add("<p>%s of the %s: <b>$%s</b> left of $%s</p>\n", capital(b.Name), b.Of, b.Left, b.Budget)
		if left, total := amount(b.Left), amount(b.Budget); total > 0 {
			p.add("<progress max=\"100\" value=\"%s\" aria-label=\"used of the %s\"></progress>\n", strconv.Itoa(int(100-100*left/total)), b.Name)
		}
	}
	for _, l := range c.Limits {
		var parts []string
		for _, x := range []struct {
			n    int64
			text string
		}{{l.Requests, " requests per minute"}, {l.Tokens, " tokens per minute"}, {l.Concurrency, " open requests"}} {
			if x.n > 0 {
				parts = append(parts, number(x.n)+x.text)
			}
		}
		p.add("<p>The %s may have %s.</p>\n", l.Of, strings.Join(parts, ", "))
	}
	p.add("<p>Models: <code>%s</code></p>\n", strings.Join(c.Models, ", "))
}

// capital returns a word with a capital letter.
func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func amount(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return n
}

func (p *page) keys(c *clientView) {
	p.add("<h2>My keys</h2>\n")
	if len(c.Keys) > 0 {
		p.add("<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"My keys\"><table><thead><tr><th>Name<th>State<th>Expires<th>Models<th>Change</tr></thead><tbody>\n")
		for _, k := range c.Keys {
			p.add("<tr><td class=\"id\">%s<td>%s<td class=\"day\">%s<td>%s<td>", k.Name, k.State, k.Expires.Format(time.DateOnly), strings.Join(k.Models, ", "))
			if k.State == "active" {
				for _, do := range []string{"rotate", "revoke"} {
					p.add("<form method=\"post\"><input type=\"hidden\" name=\"do\" value=\"%s\"><input type=\"hidden\" name=\"id\" value=\"%s\"><button aria-label=\"%s\">%s</button></form>", do, k.ID, capital(do)+" "+k.Name, capital(do))
				}
			}
			p.add("</tr>\n")
		}
		p.add("</tbody></table></div>\n")
	}
	if o := c.OwnKeys; o != nil {
		p.add(`<form method="post"><input type="hidden" name="do" value="create"><div class="fields">
<label>Name of a new key <input name="name" maxlength="100" required></label>
<label>Models (empty: all of these) <input name="models" maxlength="2000" placeholder="%s"></label>
<label>Days until it expires <input name="days" inputmode="numeric" pattern="[0-9]{1,3}" maxlength="3" placeholder="%s"></label>
<button>Create a key</button></div></form>
<p class="hint">You may have %s valid keys. Their requests count for your limits and budgets. Rotating a key gives it a new text at once; the old one ends.</p>
`, strings.Join(o.Models, ", "), strconv.FormatInt(o.Expires/(24*60*60), 10), strconv.Itoa(o.Max))
	}
}

// maxRows is the number of rows of a table.
const maxRows = 400

func (p *page) days(u *usageView) {
	p.add("<h2>By day and model</h2>\n")
	if len(u.Days) == 0 {
		p.add("<p>There are no requests.</p>\n")
		return
	}
	p.add("<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"Usage by day and model\"><table><thead><tr><th>Day (UTC)<th>Model<th class=\"n\">Requests<th class=\"n\">Failed<th class=\"n\">Input<th class=\"n\">Output<th class=\"n\">Cost</tr></thead><tbody>\n")
	for i := len(u.Days) - 1; i >= max(0, len(u.Days)-maxRows); i-- { // newest first
		d := u.Days[i]
		p.add("<tr><td class=\"day\">%s<td>%s<td class=\"n\">%s<td class=\"n\">%s<td class=\"n\">%s<td class=\"n\">%s<td class=\"n\">$%s</tr>\n", d.Day, d.Model, number(d.Requests), number(d.Errors),
			number(d.Tokens.Input+d.Tokens.CacheRead+d.Tokens.CacheWrite), number(d.Tokens.Output+d.Tokens.Reasoning), d.Cost)
	}
	p.add("</tbody></table></div>\n")
	if more := len(u.Days) - maxRows; more > 0 {
		p.add("<p class=\"hint\">%s older rows are not shown. GET /v1/usage has all.</p>\n", strconv.Itoa(more))
	}
}

func (p *page) refusals(u *usageView) {
	p.add("<h2>Refused requests</h2>\n")
	if len(u.Refused) == 0 {
		p.add("<p>There are none.</p>\n")
		return
	}
	for _, n := range u.Refused {
		p.add("<p>Because of %s: %s, the last at %s UTC.</p>\n", n.Reason, number(n.Count), n.Last.UTC().Format("2006-01-02 15:04"))
	}
	if len(u.Refusals) == 0 {
		return
	}
	p.add("<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"Refused requests\"><table><thead><tr><th>Time (UTC)<th>Model<th>What you were told<th>What lets it pass</tr></thead><tbody>\n")
	for _, f := range u.Refusals {
		told := f.Message
		if told == "" {
			told = f.Code
		}
		p.add("<tr><td class=\"day\">%s<td>%s<td class=\"wide\">%s <span class=\"hint\">%s</span><td class=\"wide\">%s</tr>\n", f.At.UTC().Format("01-02 15:04:05"), f.Model, told, f.Request, f.Remedy)
	}
	p.add("</tbody></table></div>\n")
}

// number returns a number with groups of three digits.
func number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}
