package app

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestLabelsAreOffByDefault checks that metadata and end users reach neither the ledger, the spool nor
// the log unless the configuration says so, and that a reload changes it. A hashed end user is the same
// after a restart.
func TestLabelsAreOffByDefault(t *testing.T) {
	up, data := upstreamtest.New(t), t.TempDir()
	up.Answer(expensive)
	plain := stored(up, data, "sqlite", "")
	made := keyringOf(t, plain).must(t, quota.Limit{})
	const body = `{"model":"fast","user":"canary-user","metadata":{"team":"search","note":"canary-note"},"messages":[{"role":"user","content":"Hi"}]}`
	send := func(g *gateway) {
		t.Helper()
		if status, got := g.post(t, made.Text, "/v1/chat/completions", body); status != 200 {
			t.Fatal(got)
		}
	}
	g := start(t, plain, quick())
	send(g)
	recorded := stored(up, data, "sqlite", "tags: { keys: [team], users: hashed }\n")
	g.replace(t, recorded)
	g.log.waitFor(t, loaded, 1)
	send(g)
	g.wait(t)
	if log := g.log.String(); strings.Contains(log, "canary") {
		t.Error(log)
	}
	again := start(t, recorded, quick())
	send(again)
	again.wait(t)

	rows := rowsOf(t, data)
	slices.Reverse(rows)
	if len(rows) != 3 || rows[0].User != "" || rows[0].Tags != nil {
		t.Fatalf("%+v", rows)
	}
	for _, r := range rows[1:] {
		if len(r.User) != 32 || r.User != rows[1].User || !slices.Equal(r.Tags, []usage.Tag{{Key: "team", Value: "search"}}) {
			t.Errorf("%+v", r.Labels)
		}
	}
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "canary") {
			t.Errorf("%s has what was not to be recorded", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
