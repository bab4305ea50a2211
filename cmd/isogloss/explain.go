package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/relay"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [MODEL]",
		Short: "Say who would be asked for a model, in which order, and why",
		Long: `Say who would be asked for a model, in which order, and why: which targets are
ready, which are set aside and until when, and what each would lose.

The gateway that runs with the same configuration is asked, over its admin
address. Where none runs, the answer is what a fresh one would do. Nothing is sent
to any provider.

A request in a file says more than a model's name: where its conversation is
likely to be cached, and what of it a target could not be told.`,
		Example: `  isogloss explain -c isogloss.yaml fast
  isogloss explain -c isogloss.yaml --request body.json --dialect anthropic --json`,
	}
	o := options(cmd)
	dialect := cmd.Flags().String("dialect", "openai-chat", "the client's `DIALECT`: openai-chat, openai-responses, anthropic or gemini")
	request := cmd.Flags().String("request", "", "a request's body, from `FILE`; - is standard input")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		model, body, err := explained(cmd.InOrStdin(), args, *request)
		if err != nil {
			return err
		}
		e, live, err := o.Explain(cmd.Context(), *dialect, model, body)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), struct {
				*relay.Explanation
				Live bool `json:"live"`
			}{e, live})
		}
		return printExplanation(cmd.OutOrStdout(), e, live)
	}
	return cmd
}

// explained is the model and the body that are asked about. Without a file the
// body is the model's name alone.
func explained(stdin io.Reader, args []string, file string) (model string, body []byte, err error) {
	if len(args) > 0 {
		model = args[0]
	}
	switch {
	case file == "" && model == "":
		return "", nil, errors.New("explain needs a model; write 'isogloss explain MODEL', or --request FILE")
	case file == "":
		body, err = json.Marshal(map[string]string{"model": model})
		return model, body, err
	case file == "-":
		body, err = io.ReadAll(stdin)
	default:
		body, err = os.ReadFile(file) //nolint:gosec // the user names the file
	}
	if err != nil {
		return "", nil, fmt.Errorf("--request: %w", err)
	}
	return model, body, nil
}

func printExplanation(w io.Writer, e *relay.Explanation, live bool) error {
	fmt.Fprintf(w, "%s is asked by the route %q, balance %s\n", e.Model, e.Route, e.Balance)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PLACE\tTARGET\tPROTOCOL\tLANE\tSTATE\tOPEN\tFIRST TOKEN\tFIDELITY")
	for _, t := range e.Targets {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", place(t.Place), t.Target, t.Protocol, t.Lane, stateText(t), t.Open, dash(t.FirstToken), dash(t.Fidelity))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, t := range e.Targets {
		if t.Refusal != "" {
			fmt.Fprintf(w, "%s cannot be asked this: %s\n", t.Target, t.Refusal)
		}
	}
	if !live {
		fmt.Fprintln(w, "no gateway answers on the admin address; this is what a fresh one would do")
	}
	return nil
}

func place(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func stateText(t relay.ExplainedTarget) string {
	switch {
	case t.Why == "":
		return "ready"
	case t.Until.IsZero():
		return t.Why
	}
	return t.Why + " until " + t.Until.Local().Format(time.TimeOnly)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
