package main

import (
	"context"
	"flag"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

// options are the command line's settings.
type options struct {
	bin   string
	short bool
	soak  time.Duration
}

func main() {
	var o options
	r := testrig.NewReport(os.Stdout)
	r.Quiet = func(name string) bool { return strings.HasPrefix(name, "board/") || strings.HasPrefix(name, "cancel/") }
	flag.StringVar(&o.bin, "bin", "bin/isogloss", "the gateway's binary")
	only := flag.String("only", "", "run only the checks whose name matches this expression")
	flag.BoolVar(&o.short, "short", false, "run what fits into three minutes")
	flag.BoolVar(&r.JSON, "json", false, "print the results as JSON")
	flag.DurationVar(&o.soak, "soak", 0, "run only the soak, for this long")
	page := flag.String("write", "", "write the results into this page, between its marks")
	flag.Parse()
	r.Main("chaos", page, func(ctx context.Context) (err error) {
		if *only != "" {
			if r.Only, err = regexp.Compile(*only); err != nil {
				return err
			}
		}
		return runAll(ctx, o, r)
	}, func() map[string]string {
		return map[string]string{"scenarios": scenarioTable(), "results": resultTable(r)}
	})
}

// group is a set of checks.
type group struct {
	name   string // the prefix of the checks' names
	run    func(context.Context, *rig)
	full   bool // not part of the short form
	beside bool // runs beside the others: it takes long and costs nearly nothing
}

func groups() []group {
	return []group{
		{name: "life/event-a-second", run: runSlowStreams, beside: true},
		{name: "h2", run: runBlackHole, beside: true},
		{name: "outlier", run: runOutlier, beside: true},
		{name: "board", run: runBoard},
		{name: "r12", run: runTruncated},
		{name: "life", run: runLifecycle},
		{name: "cancel", run: runDisconnects},
		{name: "r13", run: runEndless},
		{name: "r11", run: runRetryBudget},
		{name: "hedge", run: runHedge},
		{name: "r18", run: runOverload},
		{name: "r19", run: runNoisyKey},
		{name: "r15", run: runRestart},
		{name: "r16", run: runReload},
		{name: "idle", run: runIdleConnections},
		{name: "r14", run: runSlowClients, full: true},
		{name: "memory", run: runSmallMemory, full: true},
	}
}

// runAll runs the groups one after the other, and some beside them.
func runAll(ctx context.Context, o options, report *testrig.Report) error {
	r := &rig{options: o, Report: report}
	if o.soak > 0 {
		return r.alone(ctx, runSoak)
	}
	var beside sync.WaitGroup
	for _, g := range groups() {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case o.short && g.full:
		case g.beside:
			beside.Go(func() { r.runGroup(ctx, g) })
		default:
			r.Progress("%s", g.name)
			r.runGroup(ctx, g)
		}
	}
	r.Progress("waiting for the groups that run beside the others")
	beside.Wait()
	return ctx.Err()
}

func (r *rig) runGroup(ctx context.Context, g group) {
	began := time.Now()
	if err := r.alone(ctx, g.run); err != nil {
		r.Fail(g.name, err.Error(), time.Since(began))
	}
}
