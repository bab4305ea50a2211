package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// options are the command line's settings.
type options struct {
	bin      string
	short    bool
	parallel int
	soak     time.Duration
}

func main() {
	var o options
	r := testrig.NewReport(os.Stdout)
	r.Quiet = func(name string) bool { return strings.HasPrefix(name, "board/") || strings.HasPrefix(name, "cancel/") }
	flag.StringVar(&o.bin, "bin", "bin/isogloss", "the gateway's binary")
	only := flag.String("only", "", "run only the checks whose name matches this expression")
	flag.BoolVar(&o.short, "short", false, "run a selection, which other load does not fail; without it, times are also compared with their goals, and a missed goal is recorded with the load of the machine")
	flag.IntVar(&o.parallel, "parallel", 4, "with --short, run this many groups at a time")
	flag.BoolVar(&r.JSON, "json", false, "print the results as JSON")
	flag.DurationVar(&o.soak, "soak", 0, "run only the soak, for this long")
	page := flag.String("write", "", "write the results into this page, between its marks")
	flag.Parse()
	r.Goals, r.Again = !o.short, o.again
	r.Main("chaos", page, func(ctx context.Context) (err error) {
		if *only != "" {
			if r.Only, err = regexp.Compile(*only); err != nil {
				return err
			}
		}
		return runAll(ctx, o, r)
	}, func() map[string]string {
		return map[string]string{"scenarios": scenarioTable(), "results": resultTable(r), "run": testrig.NewOrigin(testrig.Repeat("chaos", os.Args[1:])).Line()}
	})
}

// again returns the command that repeats a check.
func (o *options) again(name string) string {
	mode := ""
	if o.short {
		mode = " --short"
	}
	if o.soak > 0 {
		return fmt.Sprintf("go run ./chaos --bin %s --soak %v", o.bin, o.soak)
	}
	return fmt.Sprintf("go run ./chaos --bin %s%s --only '^%s'", o.bin, mode, regexp.QuoteMeta(name))
}

// group is a set of checks. Each group has processes, ports and folders of its own.
type group struct {
	name   string // the prefix of the checks' names
	run    func(context.Context, *rig)
	full   bool // not part of the short form
	beside bool // runs beside the others: it takes long and costs nearly nothing
}

// groups returns all groups, those that take long first.
func groups() []group {
	return []group{
		{name: "life/event-a-second", run: runSlowStreams, beside: true},
		{name: "h2", run: runBlackHole, beside: true},
		{name: "outlier", run: runOutlier, beside: true},
		{name: "board", run: runBoard},
		{name: "r18", run: runOverload},
		{name: "r13", run: runEndless},
		{name: "r11", run: runRetryBudget},
		{name: "r19", run: runNoisyKey},
		{name: "r15", run: runRestart},
		{name: "r16", run: runReload},
		{name: "hedge", run: runHedge},
		{name: "r12", run: runTruncated},
		{name: "cancel", run: runDisconnects},
		{name: "life/sigterm", run: runLifecycle},
		{name: "idle", run: runIdleConnections},
		{name: "r14", run: runSlowClients, full: true},
		{name: "memory", run: runSmallMemory, full: true},
	}
}

// runAll runs the groups: some at a time in the short form, and one at a time in the full
// one, because its figures are for a machine without other load. A few run beside them.
func runAll(ctx context.Context, o options, report *testrig.Report) error {
	r := &rig{options: o, Report: report}
	if o.soak > 0 {
		return r.alone(ctx, runSoak)
	}
	var beside sync.WaitGroup
	var busy []group
	for _, g := range groups() {
		switch {
		case o.short && g.full:
		case g.beside:
			beside.Go(func() { r.runGroup(ctx, g) })
		default:
			busy = append(busy, g)
		}
	}
	atOnce := 1
	if o.short {
		atOnce = o.parallel
	}
	testrig.Each(len(busy), atOnce, func(i int) { r.runGroup(ctx, busy[i]) })
	r.Progress("waiting for the groups that run beside the others")
	beside.Wait()
	return ctx.Err()
}

func (r *rig) runGroup(ctx context.Context, g group) {
	if ctx.Err() != nil {
		return
	}
	began := time.Now()
	if err := r.alone(ctx, g.run); err != nil {
		r.Fail(g.name, err.Error(), time.Since(began))
	}
	if took := time.Since(began); took > time.Second { // else nothing of it was wanted
		r.Progress("%s took %.1f s", g.name, took.Seconds())
	}
}
