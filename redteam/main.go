package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// options are the command line's settings.
type options struct {
	bin   string
	only  *regexp.Regexp
	prove bool
	short bool // play a selection

	parallel int // groups at a time, beside those that wait
}

func main() {
	if localMain() {
		return
	}
	if os.Getenv(weakVariable) != "" {
		os.Exit(weakMain(os.Args[1:]))
	}
	var o options
	flag.StringVar(&o.bin, "bin", "bin/isogloss", "the gateway's binary")
	only := flag.String("only", "", "run only the attacks whose name matches this expression")
	asJSON := flag.Bool("json", false, "print the results as JSON")
	list := flag.Bool("list", false, "print the names of the attacks")
	flag.BoolVar(&o.prove, "prove", false, "attack a weak gateway instead, and report the attacks that it withstands")
	flag.BoolVar(&o.short, "short", false, "without --only, play a fixed selection of the attacks that take long")
	flag.IntVar(&o.parallel, "parallel", 3, "run this many groups at a time, beside those that wait")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, o, *only, *asJSON, *list)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "redteam:", err)
		code = 2
	}
	os.Exit(code)
}

func run(ctx context.Context, o options, only string, asJSON, list bool) (code int, err error) {
	if o.only, err = regexp.Compile(only); err != nil {
		return 0, err
	}
	bin := o.bin
	if o.prove {
		if o.bin, err = os.Executable(); err != nil {
			return 0, err
		}
	}
	all := groups()
	if err := checkNames(all); err != nil {
		return 0, err
	}
	if list {
		for _, g := range all {
			for _, a := range g.wanted(o) {
				fmt.Fprintln(os.Stdout, a.name)
			}
		}
		return 0, nil
	}
	r := &report{out: os.Stdout, json: asJSON, prove: o.prove, bin: bin, began: time.Now()}
	runAll(ctx, o, all, r)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return r.finish()
}

// group is a set of attacks on one gateway.
type group struct {
	name    string
	start   func(context.Context, options) (*rig, error)
	attacks []attack
	waits   bool // its attacks mostly wait, so it runs beside the others
	atOnce  int  // attacks that run at a time; 0 means one
	every   int  // a short run plays each so many-th attack; 0 means all
}

func (g *group) wanted(o options) (list []attack) {
	for i, a := range g.attacks {
		if o.only.MatchString(a.name) && (!o.short || o.only.String() != "" || g.every == 0 || i%g.every == 0) {
			list = append(list, a)
		}
	}
	return list
}

// checkNames rejects two attacks of one name.
func checkNames(all []group) error {
	seen := map[string]bool{}
	for _, g := range all {
		for _, a := range g.attacks {
			if seen[a.name] {
				return fmt.Errorf("two attacks are called %s", a.name)
			}
			seen[a.name] = true
		}
	}
	return nil
}

// runAll runs the groups. Each has a gateway and an upstream of its own.
func runAll(ctx context.Context, o options, all []group, r *report) {
	var waiting sync.WaitGroup
	busy := []group{}
	for _, g := range all {
		switch {
		case len(g.wanted(o)) == 0:
		case g.waits:
			waiting.Go(func() { runGroup(ctx, o, g, r) })
		default:
			busy = append(busy, g)
		}
	}
	testrig.Each(len(busy), max(o.parallel, 1), func(i int) { runGroup(ctx, o, busy[i], r) })
	waiting.Wait()
}

// runGroup runs the attacks of a group. A rig that cannot be started fails all of them.
func runGroup(ctx context.Context, o options, g group, r *report) {
	wanted := g.wanted(o)
	rig, err := g.start(ctx, o)
	if err != nil {
		for _, a := range wanted {
			r.add(a, notMade(err), 0)
		}
		return
	}
	defer rig.close()
	testrig.Each(len(wanted), max(g.atOnce, 1), func(i int) {
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		r.add(wanted[i], wanted[i].run(ctx, rig), time.Since(began))
	})
}
