package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/internal/app"
)

// conformFlags holds the flags of `conform`.
type conformFlags struct {
	base, listen, key, only, dump string
	corpus                        string
	models, paths                 map[string]string
	self, direct, asJSON          bool
	random                        bool
	seed                          uint64
	n, first                      int
}

func newConform() *cobra.Command {
	var f conformFlags
	cmd := &cobra.Command{
		Use:   "conform",
		Short: "Run the conformance corpus against this gateway or any other",
		Long: `Conform runs a corpus of conversations through a gateway. It plays the client and
the upstream in each of the five dialects and checks that each side receives what
the other sent.

Without flags it starts a gateway of this binary. To test another gateway, configure
it so that the models given with --model use the address of --upstream-listen in
that dialect; docs/conform.md has an example.`,
		Example: `  isogloss conform
  isogloss conform --only situations
  isogloss conform --corpus captured/
  isogloss conform --base-url http://127.0.0.1:8080 --upstream-listen 127.0.0.1:9099 \
    --model chat=on-chat --model responses=on-resp --model anthropic=on-anth --model gemini=on-gem
  isogloss conform --direct              # the corpus against itself
  isogloss conform --random --seed 7 --n 500`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.self, "self", false, "start a gateway of this binary and test it (default without --base-url)")
	flags.BoolVar(&f.direct, "direct", false, "connect client and upstream without a gateway, to test the corpus itself")
	flags.StringVar(&f.base, "base-url", "", "origin of the gateway to test")
	flags.StringVar(&f.listen, "upstream-listen", "127.0.0.1:0", "address of the scripted upstream")
	flags.StringToStringVar(&f.models, "model", nil, "DIALECT=NAME: the model that uses the scripted upstream in this dialect (chat, responses, anthropic, gemini, converse)")
	flags.StringToStringVar(&f.paths, "path", nil, "DIALECT=PATH: path of a dialect at the gateway; {model} and {verb} for gemini")
	flags.StringVar(&f.key, "key", conform.SelfKey, "client key")
	flags.StringVar(&f.only, "only", "", "run only cases whose name, title or ids contain this text")
	flags.StringVar(&f.corpus, "corpus", "", "run the cases in `FOLDER`, such as those of 'isogloss capture', instead of the built-in ones")
	flags.StringVar(&f.dump, "dump", "", "write the bytes of failed exchanges to this folder")
	flags.BoolVar(&f.random, "random", false, "play random conversations instead of the corpus")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of --random; the same seed gives the same conversations")
	flags.IntVar(&f.n, "n", 100, "number of conversations of --random; each is played in all 25 pairs")
	flags.IntVar(&f.first, "first", 0, "index of the first conversation of --random, to repeat a failure with --n 1")
	flags.BoolVar(&f.asJSON, "json", false, "print the result as JSON")
	cmd.MarkFlagsMutuallyExclusive("self", "direct", "base-url")
	return cmd
}

func (f *conformFlags) run(cmd *cobra.Command) (err error) {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	var cases []*conform.Case
	if !f.random {
		if cases, err = f.cases(); err != nil {
			return err
		}
	}
	listener, err := conform.Listen(ctx, f.listen)
	if err != nil {
		return fmt.Errorf("%w; choose another address with --upstream-listen", err)
	}
	upstream := conform.NewUpstream(listener)
	defer func() { err = errors.Join(err, upstream.Close()) }()
	target, stop, err := f.target(ctx, upstream.URL())
	if err != nil {
		return err
	}
	defer stop()
	runner := &conform.Runner{Target: target, Upstream: upstream}
	defer runner.Close()
	progress := cmd.OutOrStdout()
	if f.asJSON {
		progress = cmd.ErrOrStderr()
	}
	if f.random {
		return f.playRandom(ctx, runner, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	report, err := f.play(ctx, runner, cases, progress)
	if err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), report)
}

func (f *conformFlags) cases() ([]*conform.Case, error) {
	if f.corpus == "" {
		return conform.Corpus()
	}
	cases, err := conform.Load(os.DirFS(f.corpus))
	if err != nil {
		return nil, fmt.Errorf("--corpus: %w", err)
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("--corpus: %s has no .txtar files; 'isogloss capture --out %s' writes one", f.corpus, f.corpus)
	}
	for _, c := range cases {
		if !strings.Contains(c.Name, "/") { // the table is grouped by folder
			c.Name = filepath.Base(f.corpus) + "/" + c.Name
		}
	}
	return cases, nil
}

func (f *conformFlags) print(w io.Writer, report *conform.Report) error {
	if f.asJSON {
		if err := writeJSON(w, report.Summary()); err != nil {
			return err
		}
	} else if err := report.WriteTable(w); err != nil {
		return err
	}
	switch n := report.Failed(); {
	case len(report.Results) == 0:
		return errors.New("no case was run; look at --only and --model, and at the skipped cases")
	case n > 0:
		return fmt.Errorf("%d of %d checks do not hold", n, len(report.Results))
	}
	return nil
}

// play runs the cases and prints each result.
func (f *conformFlags) play(ctx context.Context, runner *conform.Runner, cases []*conform.Case, w io.Writer) (*conform.Report, error) {
	report := &conform.Report{}
	for _, c := range cases {
		if !f.wanted(c) {
			continue
		}
		var failed []conform.Result
		cells := runner.Cells(c)
		for _, cell := range cells {
			res := runner.Run(ctx, c, cell)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			report.Results = append(report.Results, res)
			if !res.Passed() {
				failed = append(failed, res)
			}
		}
		if len(cells) == 0 {
			if c.Configured() {
				_, _ = fmt.Fprintf(w, "left %s: it depends on settings; play it with 'isogloss replay -c FILE'\n", c.Name)
			}
			continue
		}
		mark := "ok  "
		if len(failed) > 0 {
			mark = "FAIL"
		}
		_, _ = fmt.Fprintf(w, "%s %s %d/%d  %s\n", mark, c.Name, len(cells)-len(failed), len(cells), c.Title)
		writeFailures(w, failed)
		for _, res := range failed {
			if err := f.keep(res); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// playRandom plays random conversations and prints the failures.
func (f *conformFlags) playRandom(ctx context.Context, runner *conform.Runner, w, progress io.Writer) error {
	report, err := runner.Random(ctx, conform.Random{Seed: f.seed, N: f.n, First: f.first, Only: f.only, Shrink: true, Progress: progress})
	if err != nil {
		return err
	}
	if f.asJSON {
		err = writeJSON(w, report)
	} else {
		err = report.WriteText(w)
	}
	if err != nil {
		return err
	}
	for _, x := range report.Failures {
		name := fmt.Sprintf("%s %s>%s", x.Kind, x.Client, x.Upstream)
		if err := f.write(name, x.Text+"\n\n"+x.Bytes); err != nil {
			return err
		}
	}
	switch n := report.Failed(); {
	case report.Played == 0:
		return errors.New("nothing was played; look at --only, --n and --model")
	case n > 0:
		return fmt.Errorf("%d failures in %d conversations", n, report.Played)
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeFailures prints each failure once, with all cells in which it occurred.
func writeFailures(w io.Writer, failed []conform.Result) {
	var order []string
	cells := map[string][]string{}
	for _, res := range failed {
		text := strings.Join(res.Problems, "; ")
		if cells[text] == nil {
			order = append(order, text)
		}
		cells[text] = append(cells[text], res.Cell.String())
	}
	for _, text := range order {
		_, _ = fmt.Fprintf(w, "     %s: %s\n", strings.Join(cells[text], ", "), text)
	}
}

func (f *conformFlags) wanted(c *conform.Case) bool {
	return strings.Contains(c.Name+" "+c.Title+" "+strings.Join(c.IDs, " "), f.only)
}

// keep writes the bytes of a failed exchange.
func (f *conformFlags) keep(res conform.Result) error {
	return f.write(res.Case.Name+" "+res.Cell.String(), strings.Join(res.Problems, "\n")+"\n\n"+res.Bytes)
}

// write writes a file of the folder of --dump.
func (f *conformFlags) write(name, text string) error {
	if f.dump == "" {
		return nil
	}
	name = strings.NewReplacer("/", "-", ">", "-on-", " ", "-", ":", "").Replace(name)
	if err := os.MkdirAll(f.dump, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.dump, name+".txt"), []byte(text), 0o600)
}

// target returns the gateway to test and a function that stops it.
func (f *conformFlags) target(ctx context.Context, upstream string) (t conform.Target, stop func(), err error) {
	t = conform.Target{BaseURL: f.base, Key: f.key, Direct: f.direct, Models: map[conform.Dialect]string{}, Paths: map[conform.Dialect]string{}}
	stop = func() {}
	for to, from := range map[*map[conform.Dialect]string]map[string]string{&t.Models: f.models, &t.Paths: f.paths} {
		for name, value := range from {
			d, err := conform.ParseDialect(name)
			if err != nil {
				return t, stop, err
			}
			(*to)[d] = value
		}
	}
	switch {
	case f.direct:
		t.BaseURL = upstream
	case f.base != "":
		if len(t.Models) == 0 {
			return t, stop, errors.New("no model is named; write --model chat=NAME for each dialect that the gateway has an upstream for")
		}
		return t, stop, nil
	default:
		if t.BaseURL, stop, err = startSelf(ctx, upstream); err != nil {
			return t, stop, err
		}
		t.AnyModel = true
	}
	t.Models = conform.SelfModels()
	return t, stop, nil
}

// selfConfig is the configuration of a gateway that the command starts.
const selfConfig = "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nlog: { level: error }\n" + conform.SelfConfig

// self is an app.Process that is never replaced and reports its address.
type self struct {
	address string      // the data address
	serves  chan string // receives the address when the gateway serves
}

func (s *self) Listen(ctx context.Context, name, address string) (net.Listener, error) {
	l, err := conform.Listen(ctx, address)
	if err == nil && name == "data" {
		s.address = l.Addr().String()
	}
	return l, err
}

func (s *self) Ready(context.Context, *slog.Logger) error {
	s.serves <- s.address
	return nil
}

func (s *self) Replaced() <-chan struct{} { return nil }

// startSelf runs a gateway with one model per dialect on the upstream.
func startSelf(ctx context.Context, upstream string) (base string, stop func(), err error) {
	return startGateway(ctx, fmt.Appendf(nil, selfConfig, upstream))
}

// startGateway runs a gateway in this process and returns when it serves.
func startGateway(ctx context.Context, config []byte) (base string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "isogloss-conform")
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(dir, "isogloss.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return "", nil, err
	}
	running, cancel := context.WithCancel(ctx)
	process := &self{serves: make(chan string, 1)}
	ended := make(chan error, 1)
	go func() {
		ended <- app.Run(running, app.Options{Config: file, Env: withoutSettings, Log: io.Discard, Version: buildVersion(), Process: process})
	}()
	select {
	case address := <-process.serves:
		stop = func() {
			cancel()
			<-ended
			_ = os.RemoveAll(dir) // the system clears temporary folders too
		}
		return "http://" + address, stop, nil
	case err := <-ended:
		cancel()
		_ = os.RemoveAll(dir) // as above
		return "", func() {}, fmt.Errorf("the gateway did not start: %w", cmp.Or(err, ctx.Err()))
	}
}
