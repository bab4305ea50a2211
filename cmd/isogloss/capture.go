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
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/edge/local"
	"github.com/isogloss-gateway/isogloss/internal/request/capture"
)

// captureFlags holds the flags of `capture`.
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
	f := &captureFlags{patience: 10 * time.Minute}
	cmd := &cobra.Command{
		Use:   "capture",
		Short: "Record exchanges of the running gateway as case files",
		Long: `Capture attaches to a gateway on this machine and writes exchanges to case files:
the client's request, the upstream request, the upstream's response and the
client's response. It records only while the command runs. 'isogloss replay'
replays a case.

Only the gateway's user and root may attach. Keys and cookies are never written.
Text is redacted, keeping its shape, unless --clear is given.`,
		Example: `  isogloss capture --model fast
  isogloss capture -c isogloss.yaml --key k_7Hq2 --count 5 --out captured
  isogloss capture --request 4bf92f3577b34da6a3ce929d0e0e4736 --clear`,
		Args: noArguments,
	}
	f.options = optionalConfig(cmd, "attach to the gateway with the configuration `FILE`")
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "attach to the gateway on `ADDRESS` if several run; -c does the same")
	flags.StringVar(&f.socket, "socket", "", "the gateway's socket `FILE`, if it is not found automatically")
	flags.StringVar(&f.filter.Model, "model", "", "capture requests for the model `NAME`, as clients write it")
	flags.StringVar(&f.filter.Key, "key", "", "capture requests with the key `ID`; for keys in the file: sha256: and at least 8 digits of the digest")
	flags.StringVar(&f.filter.Request, "request", "", "capture the request with this `ID` in X-Request-Id, X-Client-Request-Id or as the trace id of traceparent")
	flags.BoolVar(&f.filter.All, "all", false, "capture all requests")
	flags.IntVar(&f.filter.Count, "count", 1, "stop after this many exchanges")
	durationVar(cmd, &f.patience, "for", "stop after this time")
	flags.IntVar(&f.filter.Bytes, "max-bytes", 1<<20, "skip exchanges with a larger side")
	flags.BoolVar(&f.clear, "clear", false, "write text without redaction")
	flags.StringVar(&f.out, "out", ".", "`FOLDER` for the files")
	flags.BoolVar(&f.asJSON, "json", false, "print a JSON object for each file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }
	return cmd
}

func (f *captureFlags) run(cmd *cobra.Command) error {
	q := &f.filter
	switch {
	case q.Model == "" && q.Key == "" && q.Request == "" && !q.All:
		return errors.New("nothing to capture; write --model, --key, --request or --all")
	case q.Count < 1 || q.Bytes < 1 || f.patience <= 0:
		return errors.New("--count, --max-bytes and --for must be positive")
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
	messages := cmd.ErrOrStderr()
	err = capture.Attach(ctx, socket, *q, capture.Handler{
		Attached: func() {
			plain.Fprintf(messages, "attached to the gateway on %s; waiting for %d, at most %s\n", local.Address(socket), q.Count, f.patience)
		},
		Exchange: func(x *capture.Exchange) error { return f.keep(cmd.OutOrStdout(), messages, x) },
		Missed: func(large, busy int64) {
			fmt.Fprintf(messages, "left out so far: %d larger than --max-bytes %d, %d while too many were open\n", large, q.Bytes, busy)
		},
	})
	switch {
	case errors.Is(err, local.ErrNotRunning):
		return fmt.Errorf("%s: %w; %s", socket, err, startOne)
	case err != nil:
		return err
	case f.written == 0:
		return fmt.Errorf("no exchange matched; compare model name and key id with the gateway's log")
	}
	return nil
}

const startOne = "start it with 'isogloss serve' as the same user, or name it with --listen or --socket"

// find returns the socket of the chosen gateway.
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
		want = local.AddressOf(cfg.Listen, nil)
	}
	var found, all []string
	for _, s := range local.Sockets() {
		if !f.options.Trusts(s, nil) || !local.Alive(ctx, s) {
			continue
		}
		all = append(all, local.Address(s))
		if want == "" || want == local.Address(s) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", fmt.Errorf("several gateways run on this machine, on %s; choose one with --listen", strings.Join(all, " and "))
	case len(all) > 0:
		return "", fmt.Errorf("no gateway listens on %s; there is one on %s; choose it with --listen", want, strings.Join(all, " and "))
	}
	return "", fmt.Errorf("no gateway of this user was found on this machine; %s", startOne)
}

// keep writes one exchange to a file.
func (f *captureFlags) keep(w, messages io.Writer, x *capture.Exchange) error {
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
		plain.Fprintf(messages, "request %s is left out: %s\n", x.ID, err.Error())
		return nil
	}
	name := filepath.Join(f.out, fileOf(x, e))
	// O_EXCL: never overwrite an existing file.
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
