package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/app/doctor"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check an installation, and say what is wrong and what to do",
		Long: `Check an installation: the file, the ports and who holds them, the data folder, the
limits of the process, the way to each provider and its credential, engines, stores,
brokers, identity providers, clocks, and whether a running gateway has this version
and this configuration. Each line has a figure, and what to do if something is wrong.

The command works with and without a running gateway, changes nothing, and takes
about ten seconds at most. Run it as the gateway's user or as root, in the gateway's
environment: a service has variables that a shell does not have.

A credential is checked by the provider's list of models, which costs nothing. With
--spend a token count, or a request of a few tokens, also goes to one model of each
provider.

--bundle writes a file to send with a question: the results, versions, the
configuration without secrets, and the running gateway's metrics and last log lines.
It has no keys, prompts or responses. Only its owner can read it.

The command exits with 1 if there is a failure. Warnings and notes do not change the
exit code.`,
		Example: `  isogloss doctor -c isogloss.yaml
  isogloss doctor -c isogloss.yaml --json | jq -r '.results[] | select(.status == "failure") | .remedy'
  isogloss doctor -c isogloss.yaml --bundle bundle.txt`,
		Args: noArguments,
	}
	o := options(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	spend := cmd.Flags().Bool("spend", false, "send a token count, or a request of a few tokens, to a model of each provider")
	bundle := cmd.Flags().String("bundle", "", "write a support bundle to `FILE`")
	_ = cmd.MarkFlagFilename("bundle") // only completion needs it
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("bundle") && *bundle == "" {
			return errors.New("--bundle is empty; give it a value, or leave it out")
		}
		o.Local = true
		in, done := o.Doctor(cmd.Context(), *spend)
		out := cmd.OutOrStdout()
		show := func(r doctor.Result) { doctor.Print(out, r) }
		if *asJSON {
			show = func(doctor.Result) {}
		}
		results := in.Run(cmd.Context(), show)
		done()
		err := printDoctor(out, results, *asJSON)
		if *bundle != "" && err == nil {
			if err = in.WriteBundle(cmd.Context(), *bundle, results); err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s is written; read it before you send it\n", *bundle)
			}
		}
		if n := doctor.Count(results, doctor.Failure); err == nil && n > 0 {
			return fmt.Errorf("%s; the lines above say what to do", count(n, "failure"))
		}
		return err
	}
	return cmd
}

// printDoctor prints all results as JSON, or their number.
func printDoctor(w io.Writer, results []doctor.Result, asJSON bool) error {
	failures, warnings := doctor.Count(results, doctor.Failure), doctor.Count(results, doctor.Warning)
	if asJSON {
		return printJSON(w, map[string]any{"version": buildVersion(), "failures": failures, "warnings": warnings, "results": results})
	}
	_, err := fmt.Fprintf(w, "%s, %s, %d ok\n", count(failures, "failure"), count(warnings, "warning"), doctor.Count(results, doctor.OK))
	return err
}
