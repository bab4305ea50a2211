package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The tests of this package run the built program as a separate process, with an
// environment that contains only the variables of the test.

var (
	binary string // the built program
	update = flag.Bool("update", false, "rewrite the expected output of commands")
)

// patience is the timeout of waits in these tests. Only a failing test reaches it.
const patience = time.Minute

func TestMain(m *testing.M) {
	switch os.Getenv(testRun) {
	case "program":
		os.Exit(run())
	case "faulty":
		os.Exit(runFaulty())
	}
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "isogloss")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, runtimeFolder = filepath.Join(dir, "isogloss"), filepath.Join(dir, "run")
	if err := os.Setenv("RUNTIME_DIRECTORY", runtimeFolder); err != nil { // for what a test looks for itself
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	build := exec.Command("go", "build", "-ldflags", "-X main.version=v1.2.3", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in make build, whose compiled packages it then has
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the program does not build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// runtimeFolder has the sockets of the gateways of this package's tests.
var runtimeFolder string

// environment returns the variables of a test, and the one by which the command claims selects a change of the code.
// A test that sets no folder for sockets has that of this package.
func environment(env []string) []string {
	if !slices.ContainsFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "XDG_RUNTIME_DIR=") || strings.HasPrefix(v, "RUNTIME_DIRECTORY=")
	}) {
		env = append(slices.Clone(env), "RUNTIME_DIRECTORY="+runtimeFolder)
	}
	if n, ok := os.LookupEnv("ISOGLOSS_MUTANT"); ok {
		env = append(slices.Clone(env), "ISOGLOSS_MUTANT="+n)
	}
	return env
}

// result holds the output and the exit code of a command.
type result struct {
	stdout, stderr string
	code           int
}

// command runs the program until it exits.
func command(t *testing.T, dir string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environment(env), &stdout, &stderr
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) || ctx.Err() != nil {
		t.Fatalf("isogloss %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// process is a running program.
type process struct {
	url, metricsURL string
	log             *testrig.Log // standard error
	out             *testrig.Log // standard output
	started, live   time.Time
	cmd             *exec.Cmd
	ended           chan struct{}
}

// serve starts a gateway and returns when its log reports its addresses.
func serve(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := launch(t, env, args...)
	line := p.log.WaitFor(t, `"msg":"listening"`, 1, p.ended)
	p.live = time.Now()
	var said struct{ URL, Metrics string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		t.Fatal(err)
	}
	p.url, p.metricsURL = said.URL, said.Metrics
	return p
}

// freePair returns two free addresses, for clients and for operators.
func freePair(t *testing.T) (data, admin string) {
	t.Helper()
	found, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	return found[0], found[1]
}

// launch starts a gateway.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"serve"}, args...)...)
	cmd.Dir, cmd.Env = t.TempDir(), environment(env)
	return watch(t, cmd)
}

// watch starts a process and kills it at the end of the test if it still runs.
func watch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{log: &testrig.Log{}, out: &testrig.Log{}, ended: make(chan struct{}), cmd: cmd}
	cmd.Stdout, cmd.Stderr = p.out, p.log
	p.started = time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the ProcessState has the exit code
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails if the process has ended
		<-p.ended
		if t.Failed() {
			t.Logf("the log of the gateway:\n%s", p.log)
		}
	})
	return p
}

// signal sends a signal.
func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exit waits until the process exits and returns the exit code, or -1 if a signal
// killed it.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("the gateway does not end:\n%s", p.log)
	}
	return p.cmd.ProcessState.ExitCode()
}

// get sends a GET request over a new connection. headers alternates names and values.
func get(t *testing.T, url string, headers ...string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// writeFile writes text to a file in a new folder and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
