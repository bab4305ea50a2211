package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/internal/app"
)

// replayed is the result of one case in one cell.
type replayed struct {
	Case     string               `json:"case"`
	Cell     string               `json:"cell"`
	Model    string               `json:"model"`
	Target   string               `json:"target,omitempty"`
	Differs  []conform.Difference `json:"differences"`
	Problems []string             `json:"problems,omitempty"` // of a hand-written case
	Hint     string               `json:"hint,omitempty"`     // possible cause of a difference
}

func (r replayed) same() bool { return len(r.Differs) == 0 && len(r.Problems) == 0 }

func newReplay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay CASE...",
		Short: "Replay captured exchanges and show differences",
		Long: `Replay starts a gateway with a configuration, sends it the client's request of a
captured exchange, and answers with the captured bytes of the upstream. It shows
where the upstream request or the client's response differs from the capture.

Replay contacts no provider and opens no store. It uses the captured model or
--model. It ignores ids and times, and compares only the shape of redacted text.
It exits with 1 if anything differs.`,
		Example: `  isogloss replay 20261115-190501-anthropic-on-chat-stream-1b9d6bcd.txtar -c isogloss.yaml
  isogloss replay captured/*.txtar -c isogloss.yaml --json
  isogloss replay captured/*.txtar`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("replay needs a captured exchange; write 'isogloss replay FILE.txtar', or make one with 'isogloss capture'")
			}
			return nil
		},
	}
	o := optionalConfig(cmd, "configuration `FILE`; without it, default settings")
	o.Env = orPlaceholder
	model := cmd.Flags().String("model", "", "use the model `NAME` instead of the captured one")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all := []replayed{}
		for _, file := range args {
			results, err := replayFile(cmd.Context(), *o, file, *model)
			if err != nil {
				return err
			}
			all = append(all, results...)
		}
		var err error
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), all)
		} else {
			err = printReplayed(cmd.OutOrStdout(), all)
		}
		return errors.Join(err, verdict(all))
	}
	return cmd
}

// orPlaceholder looks up a variable of the configuration and returns a placeholder if it
// is unset. Replay uses no credentials, so it works on a machine without them.
func orPlaceholder(name string) (string, bool) {
	v, ok := withoutSettings(name)
	if ok || strings.HasPrefix(name, "ISOGLOSS_") {
		return v, ok
	}
	return "placeholder-of-a-replay", true
}

func verdict(all []replayed) error {
	n := 0
	for _, r := range all {
		if !r.same() {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d differ", n, len(all))
}

func replayFile(ctx context.Context, o app.Options, file, model string) ([]replayed, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	c, err := conform.ParseCase(strings.TrimSuffix(file, ".txtar"), text)
	if err != nil {
		return nil, err
	}
	if model == "" {
		model = c.ClientModel()
	}
	if model == "" && o.Config != "" {
		return nil, fmt.Errorf("%s names no model; write --model", file)
	}
	var out []replayed
	for _, cell := range c.Cells() {
		r, err := replayCell(ctx, o, c, cell, model)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s contains no exchange", file)
	}
	return out, nil
}

// replayCell replays a case on its own gateway.
func replayCell(ctx context.Context, o app.Options, c *conform.Case, cell conform.Cell, model string) (r replayed, err error) {
	listener, err := conform.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	upstream := conform.NewUpstream(listener)
	defer func() { err = errors.Join(err, upstream.Close()) }()
	target := conform.Target{Key: "sk-replay-client-key", Configured: true}
	r = replayed{Case: c.Name, Cell: cell.String(), Model: model, Differs: []conform.Difference{}}
	if o.Config == "" {
		base, stop, err := startSelf(ctx, upstream.URL())
		if err != nil {
			return r, err
		}
		defer stop()
		if c.Configured() {
			r.Hint = "the exchange depends on the configuration of the capture; pass it with -c"
		}
		target.BaseURL, target.AnyModel, target.Models = base, true, map[conform.Dialect]string{cell.Upstream: "on-" + string(cell.Upstream)}
	} else {
		stage, err := o.Stage(ctx, app.Part{Model: model, Protocol: protocolOf(cell.Upstream), Given: c.UpstreamModel(), Upstream: listener.Addr().String()})
		if err != nil {
			return r, err
		}
		defer stage.Close()
		r.Target = stage.Target
		target.BaseURL, target.Models = stage.URL, map[conform.Dialect]string{cell.Upstream: model}
	}
	runner := &conform.Runner{Target: target, Upstream: upstream}
	defer runner.Close()
	res := runner.Run(ctx, c, cell)
	if c.Recorded() {
		r.Differs = append(r.Differs, res.Differs...)
	} else {
		r.Problems = res.Problems
	}
	return r, ctx.Err()
}

func protocolOf(d conform.Dialect) string {
	for name, dialect := range dialects() {
		if dialect == d {
			return name
		}
	}
	return ""
}

func printReplayed(w io.Writer, all []replayed) error {
	var b strings.Builder
	for _, r := range all {
		mark := "same   "
		if !r.same() {
			mark = "DIFFERS"
		}
		on := ""
		if r.Target != "" {
			on = ", " + r.Model + " is " + r.Target
		}
		fmt.Fprintf(&b, "%s %s (%s%s)\n", mark, r.Case, r.Cell, on)
		for _, d := range r.Differs {
			fmt.Fprintf(&b, "  %s %s\n", d.Side, d.At)
			if d.Was != "" {
				fmt.Fprintf(&b, "    was %s\n", shortened(d.Was))
			}
			if d.Is != "" {
				fmt.Fprintf(&b, "    is  %s\n", shortened(d.Is))
			}
		}
		for _, p := range r.Problems {
			fmt.Fprintf(&b, "  %s\n", p)
		}
		if r.Hint != "" && !r.same() {
			fmt.Fprintf(&b, "  %s\n", r.Hint)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shortened truncates a value for the screen; --json prints all of it.
func shortened(s string) string {
	const most = 400
	s = strings.ReplaceAll(s, "\n", `\n`)
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("… (%d bytes)", len(s))
}
