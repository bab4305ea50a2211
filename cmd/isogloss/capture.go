package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/conform/record"
	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/capture"
)

// captureFlags are what the command line says.
type captureFlags struct {
	filter        capture.Filter
	listen, out   string
	socket        string
	patience      time.Duration
	clear, asJSON bool
	options       *app.Options
	written       int
}

func newCapture() *cobra.Command {
	f := &captureFlags{}
	cmd := &cobra.Command{
		Use:   "capture",
		Short: "Write exchanges of the running gateway as cases that can be replayed",
		Long: `Capture attaches to the gateway that runs on this machine and writes exchanges, as
they pass, as case files: what the client asked, what went upstream, what the
upstream answered and what the client got. It works while the command runs, and
nothing is kept otherwise. 'isogloss replay' plays a case again.

Only the user that the gateway runs as, and root, may attach. Keys and cookies are
never written. What was said is made unreadable, with its shape kept, unless --clear
is given.`,
		Example: `  isogloss capture --model fast
  isogloss capture -c isogloss.yaml --key k_7Hq2 --count 5 --out captured
  isogloss capture --request 4bf92f3577b34da6a3ce929d0e0e4736 --clear`,
		Args: noArguments,
	}
	f.options = options(cmd)
	flags := cmd.Flags()
	flags.Lookup("config").Usage = "the gateway that runs with the configuration `FILE`"
	flags.StringVar(&f.listen, "listen", "", "the gateway that listens on `ADDRESS`, where several run; -c says it too")
	flags.StringVar(&f.socket, "socket", "", "the gateway's own socket, as `FILE`, where it is not found")
	flags.StringVar(&f.filter.Model, "model", "", "requests for the model `NAME`, as clients write it")
	flags.StringVar(&f.filter.Key, "key", "", "requests with the key `ID`; for keys of the configuration file sha256: and at least 8 digits of the key's digest")
	flags.StringVar(&f.filter.Request, "request", "", "the request with the client's own `ID`, in X-Request-Id, X-Client-Request-Id or as trace id in traceparent")
	flags.BoolVar(&f.filter.All, "all", false, "all requests")
	flags.IntVar(&f.filter.Count, "count", 1, "end after so many exchanges")
	flags.DurationVar(&f.patience, "for", 10*time.Minute, "end after this time")
	flags.IntVar(&f.filter.Bytes, "max-bytes", 1<<20, "leave exchanges out of which one side is larger")
	flags.BoolVar(&f.clear, "clear", false, "write what was said as it is")
	flags.StringVar(&f.out, "out", ".", "`FOLDER` for the files")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object for each file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }
	return cmd
}

func (f *captureFlags) run(cmd *cobra.Command) error {
	q := &f.filter
	switch {
	case q.Model == "" && q.Key == "" && q.Request == "" && !q.All:
		return errors.New("say what to capture: --model, --key, --request, or --all for everything")
	case q.Count < 1 || q.Bytes < 1 || f.patience <= 0:
		return errors.New("--count, --max-bytes and --for have to be more than nothing")
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.patience)
	defer cancel()
	socket, err := f.find(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.out, 0o700); err != nil {
		return err
	}
	told := cmd.ErrOrStderr()
	err = capture.Attach(ctx, socket, *q, capture.Watch{
		Attached: func() {
			fmt.Fprintf(told, "attached to the gateway on %s; waiting for %d, at most %s\n", capture.Address(socket), q.Count, f.patience)
		},
		Exchange: func(x *capture.Exchange) error { return f.keep(cmd.OutOrStdout(), told, x) },
		Missed: func(large, busy int64) {
			fmt.Fprintf(told, "left out so far: %d larger than --max-bytes %d, %d while too many were open\n", large, q.Bytes, busy)
		},
	})
	switch {
	case errors.Is(err, capture.ErrNobody):
		return fmt.Errorf("%s: %w; %s", socket, err, startOne)
	case err != nil:
		return err
	case f.written == 0:
		return fmt.Errorf("nothing that matches could be written; look at the model's name and the key's id in the gateway's log")
	}
	return nil
}

const startOne = "start it with 'isogloss serve' as the same user, or name it with --listen or --socket"

// find is the socket of the gateway that is meant.
func (f *captureFlags) find(ctx context.Context) (string, error) {
	if f.socket != "" {
		return f.socket, nil
	}
	want := f.listen
	if want == "" && f.options.Config != "" {
		cfg, err := f.options.LoadConfig()
		if err != nil {
			return "", err
		}
		want = capture.AddressOf(cfg.Listen, nil)
	}
	var found, all []string
	for _, s := range capture.Sockets() {
		if !capture.Alive(ctx, s) {
			continue
		}
		all = append(all, capture.Address(s))
		if want == "" || want == capture.Address(s) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", fmt.Errorf("several gateways run here, on %s; name one with --listen", strings.Join(all, " and "))
	case len(all) > 0:
		return "", fmt.Errorf("no gateway on %s was found, but on %s; name one with --listen", want, strings.Join(all, " and "))
	}
	return "", fmt.Errorf("no gateway of this user was found on this machine; %s", startOne)
}

// keep writes one exchange.
func (f *captureFlags) keep(w, told io.Writer, x *capture.Exchange) error {
	texts := record.Masked
	if f.clear {
		texts = record.Clear
	}
	e, err := recorded(x)
	var text []byte
	if err == nil {
		text, err = record.Write(e, texts)
	}
	if err != nil {
		fmt.Fprintf(told, "request %s is left out: %s\n", x.ID, err)
		return nil
	}
	name := filepath.Join(f.out, fileOf(x, e))
	// An own file of this exchange alone: what stands there is somebody else's.
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the folder
	if err != nil {
		return err
	}
	if _, err := file.Write(text); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	f.written++
	if f.asJSON {
		return printJSON(w, map[string]any{"file": name, "request": x.ID, "client": e.Client, "upstream": e.Upstream, "stream": e.Stream, "status": x.Status, "model": x.Model, "clear": f.clear})
	}
	_, err = fmt.Fprintln(w, name)
	return err
}
