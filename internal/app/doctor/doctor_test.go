package doctor

import (
	"context"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// TestPageHasEveryCheck checks that the page describes each check, in their order.
func TestPageHasEveryCheck(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## What is checked")
	for _, c := range append(checks(), check{name: "clock"}) {
		_, rest, found := strings.Cut(table, "\n| `"+c.name+"` | ")
		if !found {
			t.Errorf("the page lacks a row for %q, or has it in another place", c.name)
			continue
		}
		table = "\n" + rest
	}
}

// TestResultsAreClean checks that what servers and files say is printable, bounded and without the secrets of the
// configuration, also where a check fails.
func TestResultsAreClean(t *testing.T) {
	in := &Installation{redactor: secret.NewRedactor([]string{"s3cret-key"})}
	r := in.clean("store", Result{Status: Failure, Of: "a\nb", Text: "refused s3cret-key \x1b[31m\u202e" + strings.Repeat("x", 10_000), Remedy: "\x00"})
	if r.Check != "store" || strings.Contains(r.Text, "s3cret") || !plain.IsLine(r.Of+r.Text+r.Remedy) || len(r.Text) > 4*maxText {
		t.Errorf("%+v", r)
	}
	failed := in.try(t.Context(), check{run: func(*Installation, context.Context) []Result { panic("s3cret-key") }})
	if len(failed) != 1 || failed[0].Status != Failure || strings.Contains(failed[0].Text, "s3cret") {
		t.Errorf("%+v", failed)
	}
}

// TestSecretsOfAnAddress checks what is secret in the values of a configuration.
func TestSecretsOfAnAddress(t *testing.T) {
	type section struct {
		Key    secret.String
		List   []secret.String
		Table  map[string]*section
		hidden secret.String
	}
	v := &section{Key: "a-key", List: []secret.String{"postgres://u:the-password@host/d?sslmode=disable&sig=0123456789abcdef0123456789"}, Table: map[string]*section{"x": {Key: "another"}}, hidden: "of a listing"}
	got := secretsIn(reflect.ValueOf(v), 0)
	for _, want := range []string{"a-key", "the-password", "0123456789abcdef0123456789", "another"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	if slices.Contains(got, "disable") || slices.Contains(got, string(v.hidden)) {
		t.Errorf("%q", got)
	}
}

// TestClocks checks whose clock is said to be wrong.
func TestClocks(t *testing.T) {
	for name, c := range map[string]struct {
		ahead        []time.Duration
		status       Status
		text, remedy string
	}{
		"none":            {nil, Skipped, "no server was reached", ""},
		"equal":           {[]time.Duration{0, 2 * time.Second}, OK, "at most 2s from the clocks of 2 servers", ""},
		"a little behind": {[]time.Duration{8 * time.Second, 7 * time.Second}, Warning, "this machine's clock is 8s behind that of a", "timedatectl"},
		"ahead":           {[]time.Duration{-time.Hour, -time.Hour}, Failure, "1h0m0s ahead of that of a (differing: 2 of 2 servers)", "timedatectl"},
		"another's":       {[]time.Duration{0, 0, time.Hour}, Failure, "behind that of c", "set the clock of c: 2 other servers agree with this machine"},
	} {
		in := &Installation{Now: time.Now}
		for i, d := range c.ahead {
			in.compareClock(string(rune('a'+i)), d)
		}
		if r := in.checkClocks()[0]; r.Status != c.status || !strings.Contains(r.Text, c.text) || !strings.Contains(r.Remedy, c.remedy) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestDifferences checks which settings differ.
func TestDifferences(t *testing.T) {
	got := differences("a: 1\nb: 2\nc: 3\n", "a: 1\nb: 3\nd: x: y\n")
	if !slices.Equal(got, []string{"b", "c", "d"}) {
		t.Errorf("%q", got)
	}
	if got := some([]string{"a", "b", "c", "d", "e", "f", "g"}); got != "a, b, c, d, e and 2 more" {
		t.Error(got)
	}
}
