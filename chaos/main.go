package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	bin   string
	short bool
	soak  time.Duration
	write string
}

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		code = 2
	}
	os.Exit(code)
}

// run returns 1 where a check has failed.
func run(args []string, out io.Writer) (int, error) {
	var o options
	var only string
	r := &report{out: out, began: time.Now()}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.StringVar(&o.bin, "bin", "bin/isogloss", "the gateway's binary")
	flags.StringVar(&only, "only", "", "run only the checks whose name matches this expression")
	flags.BoolVar(&o.short, "short", false, "run what fits into three minutes")
	flags.BoolVar(&r.json, "json", false, "print the results as JSON")
	flags.DurationVar(&o.soak, "soak", 0, "run the soak for so long, and nothing else")
	flags.StringVar(&o.write, "write", "", "write the results into this page, between its marks")
	if err := flags.Parse(args); err != nil {
		return 2, nil
	}
	if only != "" {
		expression, err := regexp.Compile(only)
		if err != nil {
			return 2, err
		}
		r.only = expression
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runAll(ctx, o, r); err != nil {
		return 2, err
	}
	if o.write != "" {
		if err := writePage(o.write, r); err != nil {
			return 2, err
		}
	}
	failed, err := r.finish()
	if failed > 0 {
		return 1, err
	}
	return 0, err
}

// group is a set of checks that share a gateway.
type group struct {
	name string // the checks' names begin with it
	run  func(context.Context, *bench) error
	full bool // not part of the short form
}

// bench is what a group works with.
type bench struct {
	options
	*report
	up  *upstream
	can abilities
}

// alone runs checks with an upstream of their own.
func (b *bench) alone(ctx context.Context, run func(context.Context, *bench) error) error {
	up, err := newUpstream(ctx)
	if err != nil {
		return err
	}
	defer up.close()
	own := *b
	own.up = up
	return run(ctx, &own)
}

func groups() []group {
	return []group{
		{name: "board", run: runBoard},
		{name: "r12", run: runCuts},
		{name: "life", run: runLife},
		{name: "cancel", run: runCancel},
		{name: "r13", run: runEndless},
		{name: "r11", run: runBudget},
		{name: "hedge", run: runHedge},
		{name: "r18", run: runOverload},
		{name: "r19", run: runNoisy},
		{name: "r15", run: runRestart},
		{name: "r16", run: runReload},
		{name: "r14", run: runSlowClients, full: true},
	}
}

// runAll runs what was asked for, one group after the other.
func runAll(ctx context.Context, o options, r *report) error {
	b := &bench{options: o, report: r}
	var err error
	if b.can, err = probe(ctx, b); err != nil {
		return err
	}
	if o.soak > 0 {
		return b.alone(ctx, runSoak)
	}
	slow := make(chan error, 1) // what takes longest runs beside all else and costs nearly nothing
	go func() { slow <- b.alone(ctx, runSlowStreams) }()
	for _, g := range groups() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if o.short && g.full {
			continue
		}
		r.progress("%s", g.name)
		began := time.Now()
		if err := b.alone(ctx, g.run); err != nil {
			r.failed(g.name, err.Error(), time.Since(began))
		}
	}
	r.progress("waiting for the slow streams")
	if err := <-slow; err != nil {
		r.failed("life/event-a-second", err.Error(), 0)
	}
	return ctx.Err()
}
