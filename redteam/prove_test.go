package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestMain serves as the weak gateway if the test started this program as one.
func TestMain(m *testing.M) {
	if localMain() {
		return
	}
	if os.Getenv(weakVariable) != "" {
		os.Exit(weakMain(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// TestOraclesFail runs attacks on the weak gateway: each has to succeed there. All attacks
// do so with redteam --prove, which takes longer.
func TestOraclesFail(t *testing.T) {
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := &report{out: &out, prove: true, began: time.Now()}
	runAll(t.Context(), options{bin: bin, only: regexp.MustCompile(`^(json|media)/chat/|^smuggle/.*length|^headers/verbatim/X-|^auth/chat/|^roles/get-|^identity/signature/|^signin/cookie/|^scim/filter/|^local/(place|port|shown/keys/list)/|^refusals/`), prove: true}, groups(), r)
	code, err := r.finish()
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 || len(r.results) < 100 {
		t.Errorf("%d attacks, exit code %d:\n%s", len(r.results), code, out.String())
	}
}

// TestReport checks what is printed of attacks that did not hold.
func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := &report{out: &out, began: time.Now()}
	r.add(attack{name: "a/held"}, &evidence{}, 0)
	r.add(attack{name: "a/open", known: "16.9"}, &evidence{problems: []string{"it leaks"}}, 0)
	r.add(attack{name: "b/failed"}, &evidence{sent: "GET /\r\n", got: "HTTP/1.1 200 OK", problems: []string{"status 200"}}, 0)
	code, err := r.finish()
	if err != nil || code != 1 {
		t.Errorf("exit code %d, error %v", code, err)
	}
	for _, want := range []string{"open a/open (16.9): it leaks", "FAIL b/failed", `sent: "GET /\r\n"`, `got:  "HTTP/1.1 200 OK"`, "2 tried,    1 held, 1 open", "redteam: 3 attacks, 1 failed, 1 open"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

// TestFigures checks which attacks are made again.
func TestFigures(t *testing.T) {
	for _, c := range []struct {
		name            string
		times, problems int
		found           func(*evidence, int)
	}{
		{"held", 1, 0, func(*evidence, int) {}},
		{"figure, once", 2, 0, func(e *evidence, time int) { e.figure(time == 1, "too slow") }},
		{"figure, twice", 2, 1, func(e *evidence, _ int) { e.figure(true, "too slow") }},
		{"another problem", 1, 1, func(e *evidence, time int) { e.problem(time == 1, "it leaks") }},
		{"both", 1, 2, func(e *evidence, time int) { e.figure(time == 1, "too slow"); e.problem(time == 1, "it leaks") }},
	} {
		n := 0
		a := attack{name: c.name, do: func(context.Context, *rig) *evidence {
			n++
			e := &evidence{}
			c.found(e, n)
			return e
		}}
		if e := a.run(t.Context(), &rig{}); n != c.times || len(e.problems) != c.problems {
			t.Errorf("%s: made %d times with problems %q, want %d times and %d problems", c.name, n, e.problems, c.times, c.problems)
		}
	}
}

// TestNames checks that names are unique, that there are as many attacks on each subject as promised, and that a
// short run plays some of each group, always the same.
func TestNames(t *testing.T) {
	all, n := groups(), map[string]int{}
	if err := checkNames(all); err != nil {
		t.Error(err)
	}
	everything, short := options{only: regexp.MustCompile("")}, options{only: regexp.MustCompile(""), short: true}
	again := groups()
	for i, g := range all {
		for _, a := range g.attacks {
			class, _, _ := strings.Cut(a.name, "/")
			n[class]++
			n[""]++
		}
		list, whole := g.wanted(short), g.wanted(everything)
		if len(list) == 0 || len(list) > len(whole) || g.every > 1 && len(list) > len(whole)/g.every+1 {
			t.Errorf("%s: a short run plays %d of %d", g.name, len(list), len(whole))
		}
		for j, a := range again[i].wanted(short) {
			if g.every > 1 && a.name != list[j].name {
				t.Errorf("%s: a short run plays %s or %s", g.name, a.name, list[j].name)
				break
			}
		}
	}
	for class, least := range map[string]int{"": 7500, "identity": 300, "issuers": 200, "signin": 140, "scim": 200, "metadata": 300, "records": 240, "clickhouse": 120, "terminal": 500, "open": 180, "local": 250, "refusals": 27} {
		if n[class] < least {
			t.Errorf("%d attacks of %q, want at least %d", n[class], class, least)
		}
	}
}
