package usage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

const (
	childEnv    = "ISOGLOSS_USAGE_CHILD"
	childPrompt = 10
)

// child is the process that is killed: it serves requests as fast as it can, and says
// on its output what it does. A line is one write, so it outlives the kill.
func child(dir string) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
	s, err := OpenSpool(SpoolOptions{Dir: dir, Node: "child", segment: 4 << 10, adopt: 10 * time.Millisecond})
	if err != nil {
		say("! %v", err)
		os.Exit(1)
	}
	go s.Drain(context.Background(), saySink(say), nil)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				childRequest(s, fmt.Sprintf("%d/%d/%d", os.Getpid(), w, i), w == 0, say)
			}
		})
	}
	wg.Wait()
}

func childRequest(s *Spool, id string, endless bool, say func(string, ...any)) {
	e, err := s.Begin(Opening{ID: id, Began: time.Now(), Prompt: childPrompt, Price: &Price{Input: 1e9, Output: 1e9}})
	if err != nil {
		say("! %v", err)
		return
	}
	say("begun %s", id)
	sum := int64(0)
	for n := rand.N(30); n > 0 || endless; n-- {
		add := 1 + rand.Int64N(100)
		say("add %s %d", id, add)
		e.Delivered(add)
		sum += add
	}
	say("ending %s %d", id, sum)
	if err := e.End(Row{Began: time.Now(), Outcome: Answered, Usage: llm.Usage{Input: childPrompt, Output: sum}}); err != nil {
		say("! %v", err)
	}
	say("ended %s", id)
}

// saySink is the child's way to the ledger.
type saySink func(string, ...any)

func (say saySink) Append(_ context.Context, rows []Row) error {
	for _, r := range rows {
		say("row %s %s %d %d %d", r.ID, r.Outcome, r.Usage.Input, r.Usage.Output, r.Began.UnixNano())
	}
	return nil
}

// told is what a child has said of a request.
type told struct {
	begun, ending, ended bool
	sum, last            int64 // of what was delivered, and the last of it
}

func TestKilledProcesses(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 10
	}
	dir, to := t.TempDir(), newLedger()
	requests := map[string]*told{}
	for round := range rounds {
		runChild(t, dir, requests, to)
		if round%3 == 0 || round == rounds-1 {
			if b := adoptFolders(t, dir, bare{to}); b.Corrupt != 0 {
				t.Errorf("a kill has left %d places that cannot be read", b.Corrupt)
			}
		}
	}
	if names := folders(t, dir); len(names) != 0 {
		t.Errorf("left over are %v", names)
	}
	if len(to.twice) > 0 {
		t.Errorf("rows with two contents: %v", to.twice)
	}
	rows, count := to.all(), map[Outcome]int{}
	for id, r := range requests {
		row, ok := rows[id]
		if !ok && r.begun {
			t.Errorf("%s has begun and has no row", id)
		}
		if ok {
			count[row.Outcome]++
			checkRow(t, row, r)
		}
	}
	unsaid := 0
	for id := range rows {
		if requests[id] == nil {
			unsaid++ // killed between Begin and the line
		}
	}
	if unsaid > 8*rounds {
		t.Errorf("%d rows of requests that nobody spoke of", unsaid)
	}
	t.Logf("%d requests, %v, %d unsaid", len(requests), count, unsaid)
	if count[Answered] < rounds || count[Lost] < rounds {
		t.Errorf("too little happened to prove anything: %v", count)
	}
}

func checkRow(t *testing.T, row Row, r *told) {
	t.Helper()
	switch {
	case row.Outcome == Answered:
		if !r.ending || row.Usage != (llm.Usage{Input: childPrompt, Output: r.sum}) {
			t.Errorf("%s answered with %+v, and the child said %+v", row.ID, row.Usage, *r)
		}
	case r.ended:
		t.Errorf("%s had ended and is %s", row.ID, row.Outcome)
	case row.Outcome != Lost || row.Usage.Output != r.sum && row.Usage.Output != r.sum-r.last:
		t.Errorf("%s is %s with %+v, and the child said %+v", row.ID, row.Outcome, row.Usage, *r)
	case (row.Usage.Output > 0) != (row.Usage.Input == childPrompt):
		t.Errorf("%s is charged for %+v", row.ID, row.Usage)
	}
}

// runChild starts a child, kills it at some time, and notes what it has said.
func runChild(t *testing.T, dir string, requests map[string]*told, to *ledger) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n') // it is up
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Duration(rand.Int64N(int64(60*time.Millisecond))), func() { _ = cmd.Process.Kill() })
	for line := first; ; {
		hear(t, strings.TrimSuffix(line, "\n"), requests, to)
		if line, err = lines.ReadString('\n'); err != nil {
			if !errors.Is(err, io.EOF) || line != "" {
				t.Fatalf("the child's last line is %q: %v", line, err)
			}
			break
		}
	}
	_ = cmd.Wait()
}

func hear(t *testing.T, line string, requests map[string]*told, to *ledger) {
	t.Helper()
	words := strings.Fields(line)
	number := func(i int) int64 {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return n
	}
	if words[0] == "row" {
		row := Row{ID: words[1], Outcome: Outcome(words[2]), Usage: llm.Usage{Input: number(3), Output: number(4)}, Began: time.Unix(0, number(5)).UTC()}
		_ = to.Append(t.Context(), []Row{row})
		return
	}
	if words[0] == "!" {
		t.Fatalf("the child failed: %s", line)
	}
	r := requests[words[1]]
	if r == nil {
		r = &told{}
		requests[words[1]] = r
	}
	switch words[0] {
	case "begun":
		r.begun = true
	case "add":
		r.last = number(2)
		r.sum += r.last
	case "ending":
		r.ending = true
	case "ended":
		r.ended = true
	}
}

// bare passes on what the child's sink says of a row, so that the two can be compared.
type bare struct{ to *ledger }

func (b bare) Append(ctx context.Context, rows []Row) error {
	short := make([]Row, len(rows))
	for i, r := range rows {
		short[i] = Row{ID: r.ID, Outcome: r.Outcome, Usage: r.Usage, Began: r.Began}
	}
	return b.to.Append(ctx, short)
}
