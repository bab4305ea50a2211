package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestKeysFlagsAreSymmetric checks that what one of the keys commands can do its kin can, too.
func TestKeysFlagsAreSymmetric(t *testing.T) {
	for _, cmd := range leaves(newKeys()) {
		has := func(name string) bool { return cmd.Flag(name) != nil }
		path := cmd.CommandPath()
		remote := strings.Contains(path+" ", " mine ") // asks a gateway at its address, and needs no configuration
		for _, name := range []string{"config", "json"} {
			if !has(name) && (!remote || name != "config") {
				t.Errorf("%s has no --%s", path, name)
			}
		}
		for _, name := range []string{"requests", "tokens", "concurrency", "budget", "window"} { // what sets one limit sets all
			if has("requests") != has(name) && cmd.Name() != "budget" { // its amounts are arguments
				t.Errorf("%s: --requests but not --%s, or the other way round", path, name)
			}
		}
		if has("team") && !has("org") && cmd.Name() != "update" { // update moves a key within its organisation
			t.Errorf("%s has --team without --org", path)
		}
		if has("from") != has("to") || has("block") != has("unblock") {
			t.Errorf("%s has one of two", path)
		}
		if f := cmd.Flags().Lookup("team"); f != nil && has("org") && slices.Contains([]string{"list", "usage", "budget"}, cmd.Name()) && !strings.Contains(f.Usage, `of the organisation "default" without --org`) {
			t.Errorf("%s --team: %s", path, f.Usage)
		}
	}
	for group, filter := range map[string]string{"org": "org", "team": "team", "model": "model", "target": "target", "user": "user", "tag:KEY": "tag"} {
		if f := newKeysUsage().Flags(); !strings.Contains(f.Lookup("by").Usage, group) || f.Lookup(filter) == nil {
			t.Errorf("keys usage groups by %s, but cannot be limited to one", group)
		}
	}
}

// leaves returns the commands below a command that do something.
func leaves(cmd *cobra.Command) (all []*cobra.Command) {
	for _, c := range cmd.Commands() {
		all = append(all, c)
		all = append(all, leaves(c)...)
	}
	return all
}

// TestKeysListAndUsage checks the columns of spend and last use, --team and --state, the total, and the order of sums.
func TestKeysListAndUsage(t *testing.T) {
	k := startKeys(t, "prices: { models: { \"up/*\": { input: 1000, output: 2000 } } }\n")
	dear, cheap := k.create("dear", "--team", "web"), k.create("cheap", "--org", "acme", "--team", "web")
	k.create("unused")
	for range 2 {
		k.send(dear)
	}
	k.send(cheap)
	total := regexp.MustCompile(`(?m)^TOTAL +3 `)
	testrig.Eventually(t, "the ledger has the requests", func() bool { return total.MatchString(k.keys("usage").stdout) })
	usage := k.keys("usage")
	lines := strings.Split(strings.TrimSpace(usage.stdout), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[2], "dear ") || !strings.HasPrefix(lines[3], "cheap ") || !strings.HasPrefix(lines[4], "TOTAL ") {
		t.Errorf("the highest cost comes first, the total last: %s%s", usage.stdout, usage.stderr)
	}
	if r := k.keys("usage", "--by", "key", "--order", "alphabet"); r.code == 0 || !strings.Contains(r.stderr, "cost, requests, tokens or name") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if r := k.keys("usage", "--team", "web"); strings.Contains(r.stdout, "cheap") || !strings.Contains(r.stdout, "dear") || strings.Contains(r.stdout, "TOTAL") {
		t.Errorf("--team without --org: %s%s", r.stdout, r.stderr)
	}
	if r := k.keys("usage", "--target", "up/model"); !strings.Contains(r.stdout, "TOTAL") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if r := k.keys("usage", "daer"); r.code == 0 || !strings.Contains(r.stderr, `did you mean "dear"?`) {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	var u struct {
		Sums  []struct{ Key, KeyName string }
		Total struct{ Requests int }
	}
	if err := json.Unmarshal([]byte(k.keys("usage", "--json").stdout), &u); err != nil || u.Total.Requests != 3 || len(u.Sums) != 2 {
		t.Errorf("%+v, %v", u, err)
	}

	list := k.keys("list").stdout
	for name, want := range map[string]string{"dear": `\$0\.\d+ +20\d\d-\d\d-\d\dT\d\d:00:00Z`, "unused": `\$0 +never`} {
		if !regexp.MustCompile(`(?m) ` + name + ` .* ` + want + ` +never +active$`).MatchString(list) {
			t.Errorf("%s: %s", name, list)
		}
	}
	if r := k.keys("list", "--team", "web"); strings.Count(r.stdout, "\n") != 2 || !strings.Contains(r.stdout, " dear ") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if r := k.keys("list", "--org", "acme", "--team", "web", "--json"); !strings.Contains(r.stdout, `"spent_30d": "0.`) || !strings.Contains(r.stdout, `"last_used": "`) {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	k.keys("orgs", "update", "acme", "--name", "Acme Inc.")
	k.keys("teams", "update", "web", "--org", "acme", "--name", "Web Shop")
	for _, args := range [][]string{{"list"}, {"usage", "--by", "key,org,team"}} {
		r := k.keys(append(args, "--org", "Acme Inc.", "--team", "Web Shop")...)
		if !strings.Contains(r.stdout, "cheap") || strings.Contains(r.stdout, "dear") || !strings.Contains(r.stdout, "acme (Acme Inc.)") || !strings.Contains(r.stdout, "web (Web Shop)") {
			t.Errorf("%q: %s%s", args, r.stdout, r.stderr)
		}
		if r := k.keys(append(args, "--org", "acme", "--team", "Web Shob")...); r.code == 0 || !strings.Contains(r.stderr, `did you mean "Web Shop"?`) {
			t.Errorf("%q: %s%s", args, r.stdout, r.stderr)
		}
	}
	if r := k.keys("usage", "--org", "acme", "--by", "team", "--json"); !strings.Contains(r.stdout, `"team_name": "Web Shop"`) {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if r := k.keys("teams", "--org", "Acme Inc."); !strings.Contains(r.stdout, "Web Shop") || strings.Contains(r.stdout, "default") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if r := k.keys("teams", "--org", "Acme Ink."); r.code == 0 || !strings.Contains(r.stderr, `did you mean "Acme Inc."?`) {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if r := k.keys("revoke", "unused", "--json"); !strings.Contains(r.stdout, `"state": "revoked"`) {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if r := k.keys("list", "--state", "revoked"); strings.Count(r.stdout, "\n") != 2 || !strings.Contains(r.stdout, " unused ") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if r := k.keys("list", "--state", "gone"); r.code == 0 {
		t.Error(r.stdout)
	}
	if r := k.keys("show", "dear"); !regexp.MustCompile(`(?m)^spent in 30 days +\$0\.`).MatchString(r.stdout) || !regexp.MustCompile(`(?m)^last used +20`).MatchString(r.stdout) {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
}
