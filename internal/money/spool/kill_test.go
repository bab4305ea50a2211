package spool

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

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

const (
	childEnv    = "ISOGLOSS_USAGE_CHILD"
	childPrompt = 10
)

// child is the process that is killed. It serves requests as fast as it can and writes each step to
// its output. A line is a single write, so it survives the kill.
func child(dir string) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
	s, err := Open(Options{Dir: dir, Node: "child", Keep: -1, segmentSize: 4 << 10, adoptInterval: 10 * time.Millisecond})
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
	e, err := s.Begin(Opening{ID: id, Began: time.Now(), Prompt: childPrompt, Price: &usage.Price{Input: 1e9, Output: 1e9}})
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
	if _, err := e.End(usage.Row{Began: time.Now(), Outcome: usage.Answered, Usage: llm.Usage{Input: childPrompt, Output: sum}}); err != nil {
		say("! %v", err)
	}
	say("ended %s", id)
}

// saySink writes the child's rows to its output.
type saySink func(string, ...any)

func (saySink) Finish(context.Context, string) error { return nil }

func (say saySink) Append(_ context.Context, b usage.Batch) (int64, error) {
	for _, r := range b.Rows {
		say("row %s %s %d %d %d", r.ID, r.Outcome, r.Usage.Input, r.Usage.Output, r.Began.UnixNano())
	}
	return b.To, nil
}

// seen is what a child has written about a request.
type seen struct {
	begun, ending, ended bool
	sum, last            int64 // sum of the delivered tokens, and the last delivery
}

func TestKilledProcesses(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 10
	}
	dir, to := t.TempDir(), newLedger()
	requests := map[string]*seen{}
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
	rows, count := to.all(), map[usage.Outcome]int{}
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
			unsaid++ // killed after Begin and before the child wrote its line
		}
	}
	if unsaid > 8*rounds {
		t.Errorf("%d rows of requests that nobody spoke of", unsaid)
	}
	t.Logf("%d requests, %v, %d unsaid", len(requests), count, unsaid)
	if count[usage.Answered] < rounds || count[usage.Lost] < rounds {
		t.Errorf("too little happened to prove anything: %v", count)
	}
}

func checkRow(t *testing.T, row usage.Row, r *seen) {
	t.Helper()
	switch {
	case row.Outcome == usage.Answered:
		if !r.ending || row.Usage != (llm.Usage{Input: childPrompt, Output: r.sum}) {
			t.Errorf("%s answered with %+v, and the child said %+v", row.ID, row.Usage, *r)
		}
	case r.ended:
		t.Errorf("%s had ended and is %s", row.ID, row.Outcome)
	case row.Outcome != usage.Lost || row.Usage.Output != r.sum && row.Usage.Output != r.sum-r.last:
		t.Errorf("%s is %s with %+v, and the child said %+v", row.ID, row.Outcome, row.Usage, *r)
	case (row.Usage.Output > 0) != (row.Usage.Input == childPrompt):
		t.Errorf("%s is charged for %+v", row.ID, row.Usage)
	}
}

// runChild starts a child, kills it at a random time, and collects what it has written.
func runChild(t *testing.T, dir string, requests map[string]*seen, to *ledger) {
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
	first, err := lines.ReadString('\n') // the child is running
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Duration(rand.Int64N(int64(60*time.Millisecond))), func() { _ = cmd.Process.Kill() })
	for line := first; ; {
		readLine(t, strings.TrimSuffix(line, "\n"), requests, to)
		if line, err = lines.ReadString('\n'); err != nil {
			if !errors.Is(err, io.EOF) || line != "" {
				t.Fatalf("the child's last line is %q: %v", line, err)
			}
			break
		}
	}
	_ = cmd.Wait()
}

func readLine(t *testing.T, line string, requests map[string]*seen, to *ledger) {
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
		row := usage.Row{ID: words[1], Outcome: usage.Outcome(words[2]), Usage: llm.Usage{Input: number(3), Output: number(4)}, Began: time.Unix(0, number(5)).UTC()}
		_, _ = bare{to}.Append(t.Context(), usage.Batch{Rows: []usage.Row{row}})
		return
	}
	if words[0] == "!" {
		t.Fatalf("the child failed: %s", line)
	}
	r := requests[words[1]]
	if r == nil {
		r = &seen{}
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

// bare is the part of a row that the child writes, for comparison.
type bare struct{ to *ledger }

func (bare) Finish(context.Context, string) error { return nil }

// Append stores the rows wherever they come from: a child that was killed may have sent those before.
func (b bare) Append(ctx context.Context, batch usage.Batch) (int64, error) {
	b.to.mu.Lock()
	n := int64(len(b.to.logs))
	b.to.mu.Unlock()
	short := make([]usage.Row, len(batch.Rows))
	for i, r := range batch.Rows {
		short[i] = usage.Row{ID: r.ID, Outcome: r.Outcome, Usage: r.Usage, Began: r.Began}
	}
	_, err := b.to.Append(ctx, usage.Batch{Log: fmt.Sprint(n), To: 1, Rows: short})
	return batch.To, err
}
