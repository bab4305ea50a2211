package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// session is the connection to a load process.
type session struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	stop context.CancelFunc
}

// patience is how much longer than planned a job may take, and half of what was planned.
const patience = 60 * time.Second

func (b *bench) startLoad(j job) *session {
	planned := time.Duration(j.Seconds*float64(time.Second)) * time.Duration(max(1, len(j.Stages)))
	ctx, stop := context.WithTimeout(b.ctx, planned+planned/2+patience)
	s := &session{cmd: exec.CommandContext(ctx, b.self, "load"), stop: stop} //nolint:gosec // ourselves
	s.cmd.SysProcAttr = withParent()
	s.cmd.Stderr = os.Stderr
	s.in = testrig.Must(s.cmd.StdinPipe())
	s.out = bufio.NewReader(testrig.Must(s.cmd.StdoutPipe()))
	testrig.NoError(s.cmd.Start())
	testrig.NoError(json.NewEncoder(s.in).Encode(j))
	return s
}

// next reads the next result of the load.
func (s *session) next() (r result) {
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		testrig.NoError(fmt.Errorf("the load did not answer: %w", err))
	}
	testrig.NoError(json.Unmarshal(line, &r))
	return r
}

// proceed tells a load that is ready to begin.
func (s *session) proceed() { testrig.Must(io.WriteString(s.in, "go\n")) }

func (s *session) close() {
	_ = s.in.Close()
	s.stop()
	_ = s.cmd.Wait()
}

// sample is the cost of a job for the measured process.
type sample struct {
	result
	cpu     time.Duration
	mallocs float64 // 0 if the process does not tell
	bytes   float64
	logged  float64 // bytes written to its log
}

// drive runs a job against an arm and measures its cost.
func (b *bench) drive(a *arm, j job) sample {
	s := b.startLoad(j)
	defer s.close()
	s.next() // it is warm
	testrig.NoError(a.proc.warmed(b.ctx, j))
	// Reading the counts uses CPU and allocates. The CPU time is therefore read between
	// the two readings, and two readings in a row show what one allocates.
	c0, _ := a.proc.counts(b.ctx)
	c1, _ := a.proc.counts(b.ctx)
	log := fileSize(a.proc.log)
	before := testrig.Must(a.proc.cpu())
	s.proceed()
	r := s.next()
	testrig.NoError(a.proc.asked(b.ctx, j, r.Asked))
	after := testrig.Must(a.proc.cpu())
	c2, _ := a.proc.counts(b.ctx)
	return sample{
		result: r, cpu: after - before, logged: fileSize(a.proc.log) - log,
		mallocs: max(0, c2.mallocs-c1.mallocs-(c1.mallocs-c0.mallocs)),
		bytes:   max(0, c2.bytes-c1.bytes-(c1.bytes-c0.bytes)),
	}
}

// warmed waits for the ledger rows of the warm-up and of earlier requests. Open streams
// have no row before they end.
func (p *process) warmed(ctx context.Context, j job) error {
	if j.Mode != "hold" {
		p.ledger.owe(max(j.Warm, j.Conns))
	}
	return p.ledger.settle(ctx)
}

// asked waits for the ledger rows of a job. The rows of held streams come when the load
// closes them, and the next job waits for them.
func (p *process) asked(ctx context.Context, j job, n int) error {
	p.ledger.owe(n)
	if j.Mode == "hold" {
		return nil
	}
	return p.ledger.settle(ctx)
}

func fileSize(path string) float64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return float64(info.Size())
}
