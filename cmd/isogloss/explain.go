package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [MODEL]",
		Short: "Show which targets a request would try, in which order, and why",
		Long: `Show which targets a request would try, in which order, and why: the state of
each target and until when, its last error, what a translation to it would lose, and
what the request could cost.

The command queries the running gateway over its admin port. If nothing listens
there, it shows what a new gateway would do. If the port answers but cannot be read,
the command fails. It contacts no provider. Set ISOGLOSS_OPERATOR_KEY where the admin
port needs an operator's key.

With --request it also shows which target probably has the conversation in its
prompt cache, and what each target could not receive.

With --token it shows instead which rule of the configuration admits the owner of a
token, and contacts the identity provider for its keys.`,
		Example: `  isogloss explain -c isogloss.yaml fast
  isogloss explain -c isogloss.yaml --request body.json --dialect anthropic --json`,
	}
	o := options(cmd)
	dialect := cmd.Flags().String("dialect", "openai-chat", "the client's `DIALECT`: openai-chat, openai-responses, anthropic, gemini or converse")
	request := cmd.Flags().String("request", "", "request body from `FILE`; - is standard input")
	token := cmd.Flags().String("token", "", "explain the token in `FILE`; - is standard input")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.ValidArgsFunction = completeModels
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *token != "" {
			return explainToken(cmd, o, *token, *asJSON)
		}
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
				*fleet.Explanation
				Live bool `json:"live"`
			}{e, live})
		}
		return printExplanation(cmd.OutOrStdout(), e, live)
	}
	return cmd
}

// explained returns the model and the body to explain. Without a file the body
// contains only the model name.
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
	}
	if body, err = readInput(stdin, file); err != nil {
		return "", nil, fmt.Errorf("--request: %w", err)
	}
	return model, body, nil
}

// explainToken prints which rule admits the owner of the token in a file.
func explainToken(cmd *cobra.Command, o *app.Options, file string, asJSON bool) error {
	token, err := readInput(cmd.InOrStdin(), file)
	if err != nil {
		return fmt.Errorf("--token: %w", err)
	}
	text, err := o.ExplainToken(cmd.Context(), string(token))
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), map[string]string{"caller": text})
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// readInput reads the first file, or standard input if there is none or its name is "-".
func readInput(stdin io.Reader, files ...string) ([]byte, error) {
	if len(files) == 0 || files[0] == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(files[0])
}

func printExplanation(w io.Writer, e *fleet.Explanation, live bool) error {
	fmt.Fprintf(w, "%s uses the route %q, balance %s\n", e.Model, e.Route, e.Balance)
	var params bytes.Buffer
	if json.Compact(&params, e.Params) == nil {
		fmt.Fprintf(w, "parameters %s\n", params.String())
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "PLACE\tTARGET\tPROTOCOL\tLANE\tSTATE\tOPEN\tFIRST TOKEN\tFIDELITY")
	for _, t := range e.Targets {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", place(t.Place), t.Target, t.Protocol, t.Lane, stateText(t), t.Open, dash(t.FirstToken), dash(t.Fidelity))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, t := range e.Targets {
		if t.State != "ready" && t.LastError != "" {
			fmt.Fprintf(w, "%s: last error %s at %s\n", t.Target, t.LastError, t.LastErrorAt.Local().Format(time.TimeOnly))
		}
		if t.MaxCost != "" {
			fmt.Fprintf(w, "%s: costs up to $%s (%d prompt and %d output tokens)\n", t.Target, t.MaxCost, e.MaxPrompt, e.MaxOutput)
		}
		if t.Refusal != "" {
			fmt.Fprintf(w, "%s cannot serve this request: %s\n", t.Target, t.Refusal)
		}
	}
	if !live {
		fmt.Fprintln(w, "no gateway listens on the admin address; this is what a newly started one would do")
	}
	return nil
}

func place(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// stateText returns why the target is not tried, or its state.
func stateText(t fleet.ExplainedTarget) string {
	switch {
	case t.Why != "" && t.State == "ready":
		return t.Why
	case t.Until.IsZero():
		return t.State
	}
	return t.State + " until " + t.Until.Local().Format(time.TimeOnly)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
