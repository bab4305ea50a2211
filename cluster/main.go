package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	bin   string
	short bool
	only  []string
	write string
	keep  string
}

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		code = 2
	}
	os.Exit(code)
}

// run returns 1 where a check has failed.
func run(args []string, out io.Writer) (int, error) {
	var o options
	var only string
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.StringVar(&o.bin, "bin", "bin/isogloss", "the gateway's binary")
	flags.StringVar(&only, "only", "", "run only these scenarios, for example r1,r3")
	flags.BoolVar(&o.short, "short", false, "run what fits into four minutes")
	flags.StringVar(&o.write, "write", "", "write the results into this page, between its marks")
	flags.StringVar(&o.keep, "keep", "", "leave logs and files of every scenario in this folder")
	if err := flags.Parse(args); err != nil {
		return 2, nil
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	if err := o.resolve(); err != nil {
		return 2, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := &report{out: out, began: time.Now()}
	if err := runAll(ctx, o, r); err != nil {
		return 2, err
	}
	if o.write != "" {
		if err := writePage(o.write, r); err != nil {
			return 2, err
		}
	}
	if r.finish() > 0 {
		return 1, nil
	}
	return 0, nil
}

// resolve refuses names that are no scenario's, and makes the paths absolute.
func (o *options) resolve() error {
	for _, name := range o.only {
		if !slices.ContainsFunc(scenarios(), func(s scenario) bool { return s.name == name }) {
			return fmt.Errorf("--only: there is no scenario %q", name)
		}
	}
	var err error
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return err
	}
	if o.keep != "" {
		o.keep, err = filepath.Abs(o.keep)
	}
	return err
}

func (o *options) wants(name string) bool { return len(o.only) == 0 || slices.Contains(o.only, name) }

// runAll runs the scenarios one after the other, since they measure time and the
// machine may be small, but for those that mostly wait.
func runAll(ctx context.Context, o options, r *report) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	for _, s := range scenarios() {
		if !o.wants(s.name) || ctx.Err() != nil {
			continue
		}
		do := func() {
			r.progress("%s: %s", s.name, s.says)
			began := time.Now()
			if err := runOne(ctx, o, r, s); err != nil {
				r.failed(s.name, err.Error(), time.Since(began))
			}
		}
		if s.beside {
			beside.Go(do)
		} else {
			do()
		}
	}
	beside.Wait()
	return ctx.Err()
}

// runOne runs a scenario in a folder that is removed afterwards.
func runOne(ctx context.Context, o options, r *report, s scenario) error {
	dir, err := os.MkdirTemp("", "isogloss-cluster-")
	if err != nil {
		return err
	}
	defer func() {
		if o.keep != "" {
			_ = os.Rename(dir, filepath.Join(o.keep, s.name+time.Now().Format("-150405"))) // for a look only
		}
		_ = os.RemoveAll(dir) // a temporary folder
	}()
	ctx, cancel := context.WithTimeout(ctx, s.most(o.short))
	defer cancel()
	c, err := newCluster(ctx, o.bin, dir)
	if err != nil {
		return err
	}
	defer c.close()
	return s.run(ctx, &stage{short: o.short, report: r, cluster: c})
}
