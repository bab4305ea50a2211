package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// bench is the state of a run.
type bench struct {
	ctx   context.Context //nolint:containedctx // the run is the context
	o     *options
	out   io.Writer // progress
	bin   string    // the gateway
	self  string    // this program
	dir   string    // logs and configurations
	files int       // how many descriptors a process may have

	upstream *process
	arms     []*arm
	kept     []*process
	report   *report
	began    time.Time
}

// part is a part of a run that --only can select.
type part struct {
	name  string
	about string
	quick bool // also in a quick run
	run   func(*bench)
}

func parts() []part {
	return []part{
		{"start", "start to ready", true, (*bench).startPart},
		{"cpu", "CPU and allocations per request", true, (*bench).cpuPart},
		{"events", "CPU per event of a burst", true, (*bench).eventsPart},
		{"paced", "CPU per event of paced streams", true, (*bench).pacedPart},
		{"models", "models in the table", true, (*bench).modelsPart},
		{"memory", "memory of open streams", true, (*bench).memoryPart},
		{"versions", "versions of HTTP", true, (*bench).versionsPart},
		{"dialects", "translated events of all pairs of dialects", false, (*bench).dialectsPart},
		{"store", "keys, limits and the ledger", true, (*bench).storePart},
		{"rate", "highest rate", false, (*bench).ratePart},
		{"latency", "latency at fixed rates", false, (*bench).latencyPart},
	}
}

func partNames() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

func newBench(ctx context.Context, o *options, out io.Writer) (*bench, error) {
	b := &bench{ctx: ctx, o: o, out: out, began: time.Now()}
	b.report = &report{When: b.began.UTC().Truncate(time.Second), Commit: testrig.NewOrigin("make bench").Commit, Quick: o.quick, Machine: thisMachine()}
	var err error
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if b.bin, err = filepath.Abs(o.bin); err != nil {
		return nil, err
	}
	if _, err := os.Stat(b.bin); err != nil {
		return nil, fmt.Errorf("there is no gateway to measure: %w; run `make build`", err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, err
	}
	b.files = int(min(limit.Max, 1<<20))
	b.report.Machine.Version = b.version(b.bin, "version")
	b.report.Machine.Nginx = b.version("nginx", "-v")
	if b.dir, err = os.MkdirTemp("", "isogloss-bench"); err != nil {
		return nil, err
	}
	return b, writeCertificate(b.dir)
}

// version returns the first line that a program prints about its version.
func (b *bench) version(bin, arg string) string {
	said, err := exec.CommandContext(b.ctx, bin, arg).CombinedOutput() //nolint:gosec // our own programs
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
	return strings.TrimPrefix(line, "nginx version: ")
}

func (b *bench) run() (*report, error) {
	b.look()
	if err := testrig.Run(b.makeArms); err != nil {
		return nil, err
	}
	for _, p := range parts() {
		if len(b.o.only) > 0 && !slices.Contains(b.o.only, p.name) || b.o.quick && !p.quick {
			continue
		}
		b.say("%s: %s", p.name, p.about)
		if err := testrig.Run(func() { p.run(b) }); err != nil {
			if b.ctx.Err() != nil {
				return nil, b.ctx.Err()
			}
			b.remark("the part %q ended early, and its figures are not whole: %v", p.name, err)
		}
	}
	b.report.Took = time.Since(b.began).Round(time.Second).Seconds()
	return b.report, nil
}

// quiet is the largest CPU share of other processes with which latency is judged.
const quiet = 0.10

// look measures how much CPU other processes use. It runs before the first part and
// before the latency part.
func (b *bench) look() {
	busy := busyShare(time.Second)
	if busy > quiet && b.report.Busy <= quiet {
		b.remark("Others used %.0f %% of the machine: latencies and rates say little and are not judged; CPU ratios hold.", busy*100)
	}
	b.report.Busy = max(b.report.Busy, busy)
}

// release stops the kept processes but for the first n, the last one first.
func (b *bench) release(n int) {
	for _, p := range slices.Backward(b.kept[n:]) {
		p.stop()
	}
	b.kept = b.kept[:n]
}

func (b *bench) close() {
	b.release(0)
	_ = os.RemoveAll(b.dir)
}

// say prints progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.out, "%6.0fs  "+format+"\n", append([]any{time.Since(b.began).Seconds()}, args...)...)
}

// remark prints a remark and adds it to the page.
func (b *bench) remark(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.say("%s", text)
	b.report.Remarks = append(b.report.Remarks, text)
}

// note adds the figure of one round, or the error that prevented it.
func (b *bench) note(c *cell, round int, s sample, value float64) {
	c.Asked += s.Asked
	c.Failed += s.Failed
	if s.Failed > 0 {
		if c.Why == "" {
			c.Why = s.Error
			b.say("%s, %s: %d of %d answers failed: %s", c.Table, c.Arm, s.Failed, s.Asked, s.Error)
		}
	}
	if s.Failed < s.Asked || s.Asked == 0 {
		c.Rounds[round] = value
	}
}

// size returns one of two numbers, for a full or a quick run.
func (b *bench) size(full, quick int) int {
	if b.o.quick {
		return quick
	}
	return full
}
