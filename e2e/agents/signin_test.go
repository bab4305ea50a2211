//go:build signin

package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestSignIn has Claude Code sign in with a company account: at a real Keycloak, over TLS, by the
// device flow, at this gateway and at the reference gateway of its vendor. At both it works, renews
// its token, shows its use of a budget, is stopped at the end of it, and signs out. At this gateway it
// does the job on Chat, Responses, Messages and Gemini upstreams. All answers of the two gateways are compared.
// `make e2e-signin` runs it.
func TestSignIn(t *testing.T) {
	p := newPlace(t)
	ours := &party{name: "isogloss", up: rig.NewUpstream(t), rec: newRecorder(t, p)}
	theirs := &party{name: "reference", up: rig.NewUpstream(t), rec: newRecorder(t, p)}
	issuer := startKeycloak(t, ours.rec.url, theirs.rec.url)
	program := newSite(t, "", "").module(claude().pack + "/claude")

	bin := rig.Build(t)
	startOurs(t, p, ours.rec, ours.up, issuer, bin)
	startTheirs(t, p, theirs.rec, theirs.up, issuer, program)
	for _, g := range []*party{theirs, ours} {
		g.place = p
		t.Run(g.name, func(t *testing.T) {
			t.Run("ann", func(t *testing.T) { g.works(t) })
			t.Run("ben", func(t *testing.T) { g.stops(t) })
			if g == ours {
				t.Run("programs", func(t *testing.T) { g.programs(t, bin) })
			}
		})
	}
	t.Run("contract", func(t *testing.T) { compare(t, theirs, ours) })
}

// A party is a gateway with its upstream, and the exchanges by name.
type party struct {
	name  string
	place *place
	rec   *recorder
	up    *rig.Upstream
	kept  map[string]*exchange
}

// keep stores the last of the exchanges at a path with a status, under a name.
func (g *party) keep(t *testing.T, name string, all []*exchange, method, path string, status int) *exchange {
	t.Helper()
	for _, e := range slices.Backward(all) {
		if e.method == method && e.path == path && e.status == status {
			if g.kept == nil {
				g.kept = map[string]*exchange{}
			}
			g.kept[name] = e
			return e
		}
	}
	var list strings.Builder
	for _, e := range all {
		fmt.Fprintf(&list, "  %s %s %d %.300s\n", e.method, e.path, e.status, e.body)
	}
	t.Fatalf("%s: no %s %s was answered with %d; there were\n%s", name, method, path, status, list.String())
	return nil
}

// A seat is a person's machine with Claude Code, and nothing that names the gateway but its settings.
type seat struct {
	*site
	agent *agent
	pages string // file with the addresses that were opened in a browser
}

func (g *party) seat(t *testing.T, model string) *seat {
	t.Helper()
	s := &seat{site: newSite(t, g.rec.url, model), agent: claude()}
	s.agent.installed(t, s.site)
	s.pages = filepath.Join(s.home, "pages")
	s.write(t, "browser", "#!/bin/sh\necho \"$@\" >> \""+s.pages+"\"\n")
	if err := os.Chmod(filepath.Join(s.home, "browser"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(t, ".claude/settings.json", pageBlock(t, "claude-code.md", "json", g.rec.url))
	// The first questions of a new installation, answered.
	s.write(t, ".claude.json", testrig.Compact(object{"hasCompletedOnboarding": true, "theme": "dark", "projects": object{s.folder: object{"hasTrustDialogAccepted": true}}}))
	s.agent.environment = func(*site) []string {
		return []string{
			"NODE_EXTRA_CA_CERTS=" + g.place.ca, "BROWSER=" + filepath.Join(s.home, "browser"), "DISABLE_AUTOUPDATER=1", "TERM=xterm",
			"ANTHROPIC_DEFAULT_HAIKU_MODEL=" + model,
		}
	}
	return s
}

// pageBlock returns the block of a kind on a page about a client that names the gateway, with the URL
// of this one.
func pageBlock(t *testing.T, page, kind, gateway string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "\n```"+kind+"\n")[1:] {
		if block, _, _ := strings.Cut(part, "\n```\n"); strings.Contains(block, "https://gateway.example.com") {
			return strings.ReplaceAll(block, "https://gateway.example.com", gateway) + "\n"
		}
	}
	t.Fatalf("%s has no block of %s with the URL of a gateway", page, kind)
	return ""
}

// command is the agent with some arguments.
func (s *seat) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.module(s.agent.pack+"/claude"), args...)
	cmd.Dir = s.folder
	cmd.Env = append([]string{"HOME=" + s.home, "PATH=/usr/local/bin:/usr/bin:/bin"}, s.agent.environment(s.site)...)
	return cmd
}

// ask has the agent answer one prompt, and returns what it prints and its exit status.
func (s *seat) ask(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, err := s.command(append([]string{"-p", "--model", s.model}, append(args, "--", "Say hello.")...)...).CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if ended != nil {
		return string(out), ended.ExitCode()
	}
	return string(out), 0
}

var tags = regexp.MustCompile(`(?s)<style>.*?</style>|<[^>]+>`)

// signIn signs a person in, with /login in the terminal and the identity provider's page in a browser.
func (g *party) signIn(t *testing.T, s *seat, name string) {
	t.Helper()
	x := newTerminal(t, s.command("--ax-screen-reader", "--model", s.model))
	x.expect("Run /login")
	x.keys("/login\r")
	x.expect("Enter to connect")
	x.keys("\r")
	x.expect("Trust gateway localhost?")
	x.expect("Enter y/n:")
	x.keys("y\r")
	x.expect(signInNotice)
	var page string
	if err := testrig.Until(t.Context(), rig.Patience, "no browser was opened", func() bool {
		text, err := os.ReadFile(s.pages)
		page = strings.TrimSpace(string(text))
		return err == nil && page != ""
	}); err != nil {
		t.Fatal(err)
	}
	last := browse(t, g.place, page, name)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last page of the browser was %s", tags.ReplaceAllString(last, " "))
		}
	})
	// A gateway that says whose account it is has the person confirm it.
	const connected = "Connected to Cloud gateway"
	if x.expect(connected, name+"@example.com") != connected {
		x.expect("Enter y/n:")
		x.keys("y\r")
		x.expect(connected)
	}
	x.keys("\r")
	x.close()
	all := g.rec.take()
	g.keep(t, "discovery", all, http.MethodGet, "/.well-known/oauth-authorization-server", http.StatusOK)
	g.keep(t, "device authorization", all, http.MethodPost, "/oauth/device_authorization", http.StatusOK)
	g.keep(t, "token", all, http.MethodPost, "/oauth/token", http.StatusOK)
}

// works has a person sign in, do the job, renew the token and sign out.
func (g *party) works(t *testing.T) {
	models := []string{soldModel}
	if g.name == "isogloss" {
		models = nil
		for _, d := range rig.Dialects() {
			models = append(models, claude().modelOn(d))
		}
	}
	s := g.seat(t, models[0])
	g.signIn(t, s, "ann")
	for _, model := range models {
		t.Run(model, func(t *testing.T) { g.job(t, s, model) })
	}
	g.probeFree(t, s.bearer(t))
	renewed := 0
	for _, e := range g.rec.take() {
		if e.form.Get("grant_type") == "refresh_token" {
			renewed++
		}
	}
	if renewed > 0 {
		t.Errorf("the token of an hour was renewed %d times in %d jobs", renewed, len(models))
	}
	g.renew(t, s)
	g.signOut(t, s)
}

// job has the agent do the job with a model.
func (g *party) job(t *testing.T, s *seat, name string) {
	s.model = name
	m := &model{turns: s.agent.turns, answer: answer}
	g.up.Always(m.step)
	j := newJob(t, s.site)
	_ = os.Remove(filepath.Join(s.folder, "size.txt")) // of the job before
	out, all := s.agent.run(t, s.site, prompt)
	j.check(t, s.site, out)
	checkTurns(t, s.agent, m)
	for i, r := range g.up.Requests() {
		if strings.Contains(fmt.Sprint(r.Header), "eyJ") { // how a JWT begins
			t.Errorf("request %d to the upstream carries the person's token", i)
		}
	}
	if t.Failed() {
		t.Logf("the agent printed:\n%s", all)
	}
}

// credentials is the file in which the agent keeps its sign-in.
func (s *seat) credentials() string { return filepath.Join(s.home, ".claude", ".credentials.json") }

func (s *seat) signedIn(t *testing.T) (all, gateway object) {
	t.Helper()
	text, err := os.ReadFile(s.credentials())
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	gateway, ok := all["enterpriseGateway"].(object)
	if err != nil || !ok {
		t.Fatalf("the agent is not signed in: %v %s", err, text)
	}
	return all, gateway
}

// bearer is the token that the agent sends.
func (s *seat) bearer(t *testing.T) string {
	t.Helper()
	_, gateway := s.signedIn(t)
	token, _ := gateway["jwt"].(string)
	return token
}

// renew checks that the agent renews a token that is about to expire.
func (g *party) renew(t *testing.T, s *seat) {
	t.Helper()
	all, gateway := s.signedIn(t)
	gateway["expiresAt"] = time.Now().Add(time.Second).UnixMilli()
	if err := os.WriteFile(s.credentials(), []byte(testrig.Compact(all)), 0o600); err != nil {
		t.Fatal(err)
	}
	before := s.bearer(t)
	g.up.Always(spends(0))
	if out, status := s.ask(t); status != 0 || !strings.Contains(out, "Hello there.") {
		t.Fatalf("the agent ends with %d: %s", status, out)
	}
	e := g.keep(t, "renewed token", g.rec.take(), http.MethodPost, "/oauth/token", http.StatusOK)
	if e.form.Get("grant_type") != "refresh_token" || s.bearer(t) == before {
		t.Errorf("the token was not renewed: %v", e.form)
	}
}

// signOut checks that the agent forgets its token and, where the gateway offers it, has it revoked.
func (g *party) signOut(t *testing.T, s *seat) {
	t.Helper()
	token := s.bearer(t)
	if out, err := s.command("auth", "logout").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(s.credentials()); err == nil {
		t.Error("the agent keeps its credentials")
	}
	if g.name != "isogloss" {
		return // it offers no revocation
	}
	all := g.rec.take()
	g.keep(t, "revocation", all, http.MethodPost, "/oauth/revoke", http.StatusOK)
	if e := g.call(t, http.MethodGet, "/managed/settings", token, "", ""); e.status != http.StatusUnauthorized || e.header.Get("X-Should-Retry") != "false" {
		t.Errorf("a revoked token gets %d and x-should-retry %q, want 401 and false", e.status, e.header.Get("X-Should-Retry"))
	}
}

// spends answers with so many output tokens, at 15 dollars per million, and with few after that.
func spends(tokens int) rig.Step {
	var spent atomic.Bool
	return func(r *rig.Received) bool {
		d := dialectAt(r.Path())
		reply := d.Reply(testrig.Reply{Words: []string{"Hello ", "there."}})
		if !spent.Swap(true) {
			reply.Out += tokens
		}
		if d.Asked(r).Stream {
			return rig.Stream(reply.Stream().All()...)(r)
		}
		return rig.Whole(http.StatusOK, reply.Body())(r)
	}
}

// stops has a person with 20 dollars a day spend 79 % of them, which the agent shows, and then all,
// after which it is stopped.
func (g *party) stops(t *testing.T) {
	if g.name == "reference" {
		send(t, g.place.client(), g.rec.url+"/v1/organizations/spend_limits", http.Header{"X-Api-Key": {adminKey}, "Content-Type": {"application/json"}},
			`{"scope":{"type":"organization"},"period":"daily","amount":"2000"}`, nil)
	}
	s := g.seat(t, soldModel)
	g.signIn(t, s, "ben")
	messages := "/v1/messages"

	g.up.Always(spends(1_060_000))
	if out, status := s.ask(t); status != 0 {
		t.Fatalf("the agent ends with %d: %s", status, out)
	}
	g.keep(t, "message below 75 %", g.rec.take(), http.MethodPost, messages, http.StatusOK)

	g.up.Always(spends(0))
	x := newTerminal(t, s.command("--ax-screen-reader", "--model", s.model))
	x.expect("$")
	x.keys("Say hello.\r")
	x.expect("You've used 79% of your usage credits", "You've used 80% of your usage credits")
	x.keys("/usage\r")
	x.expect("/ $20.00 spent")
	x.close()
	all := g.rec.take()
	g.keep(t, "message above 75 %", all, http.MethodPost, messages, http.StatusOK)
	g.keep(t, "usage", all, http.MethodGet, "/api/oauth/usage", http.StatusOK)

	g.up.Always(spends(300_000))
	if out, status := s.ask(t); status != 0 {
		t.Fatalf("the agent ends with %d: %s", status, out)
	}
	before := len(g.up.Requests())
	out, status := s.ask(t)
	e := g.keep(t, "message at the cap", g.rec.take(), http.MethodPost, messages, http.StatusTooManyRequests)
	// Claude Code shows the message, and another form of the time in it.
	message, _, _ := strings.Cut(testrig.Parse(e.body).Obj("error").Str("message"), "resets")
	if status == 0 || message == "" || !strings.Contains(out, message) || len(g.up.Requests()) != before {
		t.Errorf("at the end of the budget the agent ends with %d and prints %q; the upstream got %d requests more", status, out, len(g.up.Requests())-before)
	}
	t.Logf("%s: the agent is stopped with: %s", g.name, out)
	g.probe(t, s.bearer(t))
}

// programs has codex and gemini-cli do the job with a token that isogloss fetches and renews.
func (g *party) programs(t *testing.T, bin string) {
	home := t.TempDir()
	if err := os.Symlink(bin, filepath.Join(home, "isogloss")); err != nil {
		t.Fatal(err)
	}
	environment := []string{"HOME=" + home, "PATH=" + home + ":/usr/local/bin:/usr/bin:/bin", "SSL_CERT_FILE=" + g.place.ca, "NODE_EXTRA_CA_CERTS=" + g.place.ca}
	isogloss := func(args ...string) *exec.Cmd {
		cmd := exec.Command(bin, args...)
		cmd.Env = environment
		return cmd
	}
	login, printed := isogloss("login", g.rec.url), &rig.Log{}
	login.Stdout, login.Stderr = printed, printed
	if err := login.Start(); err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(regexp.QuoteMeta(g.rec.url) + `/device\S+`)
	if err := testrig.Until(t.Context(), 30*time.Second, "no link", func() bool { return link.MatchString(printed.String()) }); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	browse(t, g.place, link.FindString(printed.String()), "ann")
	if err := login.Wait(); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	token, err := isogloss("token").Output()
	if err != nil {
		t.Fatal(err)
	}
	x, y := codex(), gemini()
	x.setUp = func(t *testing.T, s *site) {
		own, _, _ := strings.Cut(codexSettings(s), "[model_providers")
		s.write(t, ".codex/config.toml", own+pageBlock(t, "codex.md", "toml", g.rec.url))
	}
	x.environment = func(*site) []string {
		return append(slices.Clone(environment), "CODEX_HOME="+filepath.Join(home, ".codex"))
	}
	y.environment = func(s *site) []string {
		return append(slices.Clone(environment), "GEMINI_API_KEY="+strings.TrimSpace(string(token)), "GOOGLE_GEMINI_BASE_URL="+s.url)
	}
	for _, a := range []*agent{x, y} {
		for _, d := range rig.Dialects() {
			t.Run(a.name+"-on-"+d.Name, func(t *testing.T) {
				s := &seat{site: newSite(t, g.rec.url, claude().modelOn(d)), agent: a}
				s.home = home
				g.job(t, s, s.model)
			})
		}
	}
}
