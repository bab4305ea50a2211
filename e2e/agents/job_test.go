package agents

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// prompt is the job. It takes reading a file, changing it, running a command and
// answering, and the command's output shows whether it ran after the change.
const prompt = "Read notes.txt, change the colour in it from red to purple, then run the command `" + sizing +
	"` and tell me who has signed the notes."

const sizing = "wc -c < notes.txt > size.txt"

// patience is how long an agent may take for the job. It takes seconds on a quiet machine.
const patience = 3 * time.Minute

// A job is the folder that an agent works in. The name in it is different each time,
// so that an answer with it in has come from the file.
type job struct{ signer, before, after string }

func newJob(t *testing.T, s *site) *job {
	t.Helper()
	j := &job{signer: "Ada-" + rand.Text()[:8]}
	j.before = "The door is red.\nThese notes are signed by " + j.signer + ".\n"
	j.after = strings.Replace(j.before, "red", "purple", 1)
	if err := os.WriteFile(filepath.Join(s.folder, "notes.txt"), []byte(j.before), 0o600); err != nil {
		t.Fatal(err)
	}
	return j
}

// check holds that the job is done.
func (j *job) check(t *testing.T, s *site, printed string) {
	t.Helper()
	if got := j.read(t, s, "notes.txt"); got != j.after {
		t.Errorf("notes.txt is %q, want %q", got, j.after)
	}
	if got, want := strings.TrimSpace(j.read(t, s, "size.txt")), fmt.Sprint(len(j.after)); got != want {
		t.Errorf("size.txt has %q, want %q", got, want)
	}
	if !strings.Contains(printed, j.answer()) {
		t.Errorf("the agent does not print %q", j.answer())
	}
}

func (j *job) read(t *testing.T, s *site, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.folder, name))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func (j *job) answer() string { return answer([]string{"signed by " + j.signer + "."}) }

// answer is what the model says in the end.
func answer(results []string) string { return "The notes are signed by " + signer(results) + "." }

// run has the agent work in its folder and returns what it prints on its standard
// output, and all that it prints.
func (a *agent) run(t *testing.T, s *site, prompt string) (out, all string) {
	t.Helper()
	a.installed(t, s)
	a.setUp(t, s)
	var stdout bytes.Buffer
	everything := &rig.Log{}
	a.start(t, s, a.command(s, prompt), nil, writers{&stdout, everything}, everything)
	return stdout.String(), everything.String()
}

// start runs a command line of the agent and waits for its end.
func (a *agent) start(t *testing.T, s *site, line []string, in io.Reader, out, log io.Writer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, log
	cmd.Dir = s.folder
	// A bare environment: no proxy, no key and no base URL of the user leaks in.
	cmd.Env = append([]string{"HOME=" + s.home, "PATH=/usr/local/bin:/usr/bin:/bin", "NO_COLOR=1"}, a.environment(s)...)
	// An agent leaves helpers behind. They are of its process group and end with it, and
	// it ends with this process, of which it is told by the thread that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // mostly there is none left
	}
	switch {
	case ctx.Err() != nil:
		t.Errorf("%s is not done after %s", a.title, patience)
	case errors.Is(err, exec.ErrWaitDelay): // a helper held its output; it had ended well
	case err != nil:
		t.Errorf("%s ends with %v", a.title, err)
	}
}

// installed holds that the agent is there at the table's version.
func (a *agent) installed(t *testing.T, s *site) {
	t.Helper()
	about, err := os.ReadFile(s.module(a.pack + "/package.json"))
	if err != nil {
		t.Fatalf("%s is missing: %v; run e2e/setup.sh agents", a.title, err)
	}
	if v := testrig.Parse(about).Str("version"); v != a.version {
		t.Fatalf("%s is installed at %s, and the table says %s", a.title, v, a.version)
	}
}

// writers writes to two, of which neither fails.
type writers struct {
	one *bytes.Buffer
	two *rig.Log
}

func (w writers) Write(p []byte) (int, error) {
	w.one.Write(p)
	return w.two.Write(p)
}

// checkUpstream holds that the upstream was sent the provider's key, no trace of the
// client's and nothing that its vendor would refuse, and that the job was done in one
// dialect and streamed.
func (m *model) checkUpstream(t *testing.T, a *agent, job *rig.Dialect, got []*rig.Received) {
	t.Helper()
	for i, g := range got {
		d, f := checkRequest(t, a, i, g)
		at, _ := m.reply(f)
		if at != side && (d.Name != job.Name || f.Model != d.Target || !f.Stream) {
			t.Errorf("request %d asks %s for %q, streamed: %t; want %q of %s streamed", i, d.Name, f.Model, f.Stream, job.Target, job.Name)
		}
		for _, name := range m.unknown(at, f) {
			t.Errorf("request %d does not declare %s, which the model calls then", i, name)
		}
	}
}

// checkRequest holds that a request has the provider's key, no trace of the client's and
// nothing that its vendor would refuse. Several turns of the user in a row are the
// agent's own, if it speaks the vendor's dialect: the gateway relays them as they are.
func checkRequest(t *testing.T, a *agent, i int, g *rig.Received) (*rig.Dialect, rig.Facts) {
	t.Helper()
	d := dialectAt(g.Path())
	if v := g.Header.Get(d.Key); v != d.KeyValue {
		t.Errorf("request %d has %s %q, want the provider's", i, d.Key, v)
	}
	for name, values := range g.Header {
		if strings.Contains(strings.Join(values, "\n"), rig.ClientKey) {
			t.Errorf("request %d carries the client's key in %s", i, name)
		}
	}
	if bytes.Contains(g.Body, []byte(rig.ClientKey)) || strings.Contains(g.URI, rig.ClientKey) {
		t.Errorf("request %d carries the client's key", i)
	}
	f := d.Asked(g)
	f.Wrong = slices.DeleteFunc(f.Wrong, func(s string) bool {
		return a.dialect == d.Name && strings.Contains(s, `role "user" after "user"`)
	})
	if len(f.Wrong) > 0 {
		t.Errorf("request %d would be refused: %s", i, strings.Join(f.Wrong, "; "))
	}
	return d, f
}

// checkTurns holds that each turn was asked for once, and that there were some.
func checkTurns(t *testing.T, a *agent, m *model) {
	t.Helper()
	var want []int
	for i := range len(a.turns) + 1 {
		want = append(want, i)
	}
	if got := m.played(); !slices.Equal(got, want) || len(want) < 4 {
		t.Errorf("the model was asked for the turns %d, want %d", got, want)
	}
}
