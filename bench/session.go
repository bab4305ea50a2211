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
)

// session is our end of a load process.
type session struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	stop context.CancelFunc
}

// patience is how much longer than planned a job may take before it is given up.
const patience = 60 * time.Second

func (b *bench) startLoad(j job) (*session, error) {
	planned := time.Duration(j.Seconds*float64(time.Second)) * time.Duration(max(1, len(j.Stages)))
	ctx, stop := context.WithTimeout(b.ctx, planned+patience)
	s := &session{cmd: exec.CommandContext(ctx, b.self, "load"), stop: stop} //nolint:gosec // ourselves
	s.cmd.SysProcAttr = withParent()
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.in, s.out = in, bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	_, err = s.in.Write(append(line, '\n'))
	return s, err
}

// next reads what the load says.
func (s *session) next() (r result, err error) {
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return r, fmt.Errorf("the load did not answer: %w", err)
	}
	return r, json.Unmarshal(line, &r)
}

func (s *session) proceed() error {
	_, err := io.WriteString(s.in, "go\n")
	return err
}

func (s *session) close() {
	_ = s.in.Close()
	s.stop()
	_ = s.cmd.Wait()
}

// sample is what a job cost the process that it was sent to.
type sample struct {
	result
	cpu     time.Duration
	mallocs float64 // 0 if the process does not tell
	bytes   float64
	logged  float64 // bytes written to its log
}

// drive runs one job against an arm and reads what it cost.
func (b *bench) drive(a *arm, j job) (sample, error) {
	s, err := b.startLoad(j)
	if err != nil {
		return sample{}, err
	}
	defer s.close()
	if _, err := s.next(); err != nil { // it is warm
		return sample{}, err
	}
	if err := a.proc.warmed(b.ctx, j); err != nil {
		return sample{}, err
	}
	// Reading the counts costs CPU and allocates, so the CPU time is read on the near
	// side of both readings, and two readings in a row say what one allocates.
	c0, _ := a.proc.counts(b.ctx)
	c1, _ := a.proc.counts(b.ctx)
	log := fileSize(a.proc.log)
	before, err := a.proc.cpu()
	if err != nil {
		return sample{}, err
	}
	if err := s.proceed(); err != nil {
		return sample{}, err
	}
	r, err := s.next()
	if err != nil {
		return sample{}, err
	}
	if err := a.proc.asked(b.ctx, j, r.Asked); err != nil {
		return sample{}, err
	}
	after, err := a.proc.cpu()
	if err != nil {
		return sample{}, err
	}
	c2, _ := a.proc.counts(b.ctx)
	return sample{
		result: r, cpu: after - before, logged: fileSize(a.proc.log) - log,
		mallocs: max(0, c2.mallocs-c1.mallocs-(c1.mallocs-c0.mallocs)),
		bytes:   max(0, c2.bytes-c1.bytes-(c1.bytes-c0.bytes)),
	}, nil
}

// warmed waits for the rows of what was asked to warm up, and of what was asked before.
// Streams that are held open have no row before they end.
func (p *process) warmed(ctx context.Context, j job) error {
	if j.Mode != "hold" {
		p.ledger.owe(max(j.Warm, j.Conns))
	}
	return p.ledger.settle(ctx)
}

// asked waits for the rows of a job that has ended. Those of streams that were held
// come when the load lets go of them, and are waited for before the next job.
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
