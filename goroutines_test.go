package isogloss

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unguarded lists the goroutines of the product that a panic may leave, by file and
// function, with the reason. They read nothing that an upstream, a client or a store has
// sent, or a library that we call recovers.
var unguarded = map[string]string{
	"cmd/isogloss/conform.go startGateway":                    "net/http recovers in its handlers",
	"cmd/isogloss/serve.go hangups":                           "reads signals of this machine",
	"cmd/isogloss/serve.go untilSignal":                       "reads signals of this machine",
	"internal/people/access/snapshot.go table":                "reads the node's own file, whose checksum was compared",
	"internal/app/app.go Run":                                 "reads the configuration's file",
	"internal/app/life.go begin":                              "net/http recovers in its handlers",
	"internal/app/stage.go Stage":                             "net/http recovers in its handlers",
	"internal/base/heap/heap.go Tune":                         "runs the garbage collector",
	"internal/request/cache/once.go NewOnce":                  "renews claims; reads no reply but its error",
	"internal/request/cache/redis.go NewRedis":                "writes entries; reads no reply but its error",
	"internal/targets/cloud/credential.go wakeLocked":         "starts a fetch, which is below crash.Try",
	"internal/targets/discover/etcd_watch.go follow":          "opens a watch; its events are read below crash.Keep",
	"internal/request/exchange/writer.go KeepAlive":           "writes a constant",
	"internal/edge/handover/handover.go New":                  "waits for the previous process",
	"internal/edge/handover/handover.go Ready":                "reads signals of this machine",
	"internal/edge/handover/handover.go hear":                 "starts the next process",
	"internal/targets/health/check.go Watch":                  "its checks are below crash.Try",
	"internal/targets/limit/memory.go look":                   "runs the garbage collector",
	"internal/request/models/catalog.go startLocked":          "its query is below crash.Try",
	"internal/targets/discover/signals/signals.go Engine":     "its reads are below crash.Do",
	"internal/base/redis/stall.go watchStall":                 "compares times",
	"internal/request/relay/forward.go sendForward":           "ends a read",
	"internal/money/spool/drain.go Drain":                     "cancels a context",
	"internal/money/spool/spool.go Open":                      "reads and writes the node's own files",
	"internal/ledger/store/db/db.go Open":                     "reads the version of the tables, a number",
	"internal/ledger/store/db/migrate.go lockMigrations":      "renews a lock",
	"internal/request/upstream/firsttoken.go AwaitFirstToken": "cancels a context",
	"internal/request/upstream/roundtrip.go RoundTrip":        "cancels a context",
	"internal/request/upstream/roundtrip.go Outlive":          "waits and cancels a context",
	"internal/request/upstream/roundtrip.go Rejoin":           "cancels a context",
	"internal/ledger/alerts/mail.go send":                     "sets a deadline",
	"internal/ledger/usagelog/consume/consume.go leave":       "waits for goroutines",
	"internal/ledger/usagelog/nats/nats.go Produce":           "sends; reads no reply but its error",
	"internal/app/usagesetup/setup.go Consume":                "net/http recovers in its handlers",
}

// helpers are packages of tests; harnesses are not a part of the product either.
var helpers = []string{"internal/test/testrig", "internal/test/storetest", "internal/test/upstreamtest", "internal/test/signintest", "internal/test/hostile", "internal/targets/limit/limittest"}

// TestGoroutinesRecover checks that every goroutine of the product recovers, by a function
// of internal/base/crash, or has a reason why it need not.
func TestGoroutinesRecover(t *testing.T) {
	found := map[string]bool{}
	for name, file := range productFiles(t) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || !startsUnguarded(t, f.Body) {
				continue
			}
			where := name + " " + f.Name.Name
			found[where] = true
			if unguarded[where] == "" {
				t.Errorf("%s starts a goroutine that a panic would leave, which ends the process; run its body below crash.Try, crash.Do or crash.Keep, or add the reason to the table of this test", where)
			}
		}
	}
	for where := range unguarded {
		if !found[where] {
			t.Errorf("%s starts no such goroutine any more; remove it from the table of this test", where)
		}
	}
}

// productFiles returns the source files of the product, without tests and harnesses.
func productFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	found := map[string]*ast.File{}
	for _, root := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			name := filepath.ToSlash(path)
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || slices.Contains(helpers, name)):
				return filepath.SkipDir
			case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			found[name], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// startsUnguarded reports whether a body has a go statement, a Go method of a group or an
// AfterFunc whose function does not call internal/base/crash or a function that does.
func startsUnguarded(t *testing.T, body *ast.BlockStmt) (unguarded bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		var started ast.Node
		switch n := n.(type) {
		case *ast.GoStmt:
			started = n.Call
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc") {
				started = n.Args[len(n.Args)-1]
			}
		}
		if started == nil {
			return true
		}
		var text bytes.Buffer
		if err := format.Node(&text, token.NewFileSet(), started); err != nil {
			t.Fatal(err)
		}
		unguarded = unguarded || !strings.Contains(text.String(), "crash.") && !strings.Contains(text.String(), "sendBeside(")
		return true
	})
	return unguarded
}
