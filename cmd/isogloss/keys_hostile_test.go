package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/isogloss-gateway/isogloss/internal/edge/local"
)

// falseGateway listens on a socket as a gateway and gives one answer to all but the question which one it is. It returns the
// environment of commands that find it.
func falseGateway(t *testing.T, identity, answer string, status int) (env []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ik") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("RUNTIME_DIRECTORY", dir)
	l, err := local.Listen("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := answer
		if r.URL.Path == "/gateway" {
			text = identity
		} else {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, text) // to a command that may have ended
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done; _ = os.RemoveAll(dir) })
	return []string{"RUNTIME_DIRECTORY=" + dir}
}

// TestKeysOfAFalseGateway asks a program in the place of the gateway, whose texts a terminal obeys. Root may use the gateway of
// another user. What is printed is plain: no text makes a line of its own.
func TestKeysOfAFalseGateway(t *testing.T) {
	const bad = "x\x1b[2J\u202e\u009b\nkey is revoked\r"
	quoted, _ := json.Marshal(bad)
	text := string(quoted)
	identity := fmt.Sprintf(`{"configuration":%[1]s,"address":%[1]s,"data":%[1]s,"store":%[1]s,"node":%[1]s,"version":%[1]s,"pid":7}`, text)
	key := fmt.Sprintf(`{"id":%[1]s,"name":%[1]s,"org":%[1]s,"team":%[1]s,"role":%[1]s,"state":%[1]s,"criticality":%[1]s,"models":[%[1]s],"endpoints":[%[1]s],"networks":[%[1]s],"limits":{"budget":%[1]s,"budgets":[{"amount":%[1]s,"spent":%[1]s}]}}`, text)
	sum := fmt.Sprintf(`{"from":"2026-11-15T12:00:00Z","to":"2026-11-15T13:00:00Z","sums":[{"key":%[1]s,"org":%[1]s,"team":%[1]s,"model":%[1]s,"user":%[1]s,"cost":%[1]s}],"total":{"cost":%[1]s,"refused":1},"refusals":[{"key":%[1]s,"reason":%[1]s}]}`, text)
	config := writeFile(t, "isogloss.yaml", fmt.Sprintf(withMetrics, "http://127.0.0.1:1/v1")+"store: sqlite\n")
	for name, c := range map[string]struct {
		answer string
		status int
	}{
		"keys":     {`{"items":[` + key + `]}`, 200},
		"made":     {`{"text":` + text + `,"key":` + key + `}`, 200},
		"a key":    {key, 200},
		"usage":    {sum, 200},
		"an error": {`{"status":422,"code":` + text + `,"title":` + text + `,"detail":` + text + `,"errors":[{"location":` + text + `,"message":` + text + `}]}`, 422},
		"detail":   {`{"status":409,"detail":` + text + `}`, 409},
		"no JSON":  {bad, 500},
	} {
		env := falseGateway(t, identity, c.answer, c.status)
		for _, args := range [][]string{{"list"}, {"show", "x"}, {"create", "--name", "n", "--models", "m"}, {"update", "x", "--name", "y"}, {"revoke", "x"}, {"rotate", "x"}, {"budget", "x"}, {"usage"}, {"teams", "list"}, {"orgs", "list"}, {"list", "-c", config}, {"list", "--listen", "127.0.0.1:9"}} {
			r := command(t, filepath.Dir(config), env, append([]string{"keys"}, args...)...)
			for _, line := range strings.Split(r.stdout+r.stderr, "\n") {
				if i := strings.IndexFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }); i >= 0 || strings.HasPrefix(line, "key is revoked") {
					t.Errorf("%s: keys %v prints %q", name, args, line)
				}
			}
			if strings.Contains(r.stderr, "panic") {
				t.Errorf("%s: keys %v: %s", name, args, r.stderr)
			}
		}
	}
}
