package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/request/translation"
	"github.com/isogloss-gateway/isogloss/llm"
)

func newTranslate() *cobra.Command {
	var t translation.Translation
	var mode string
	cmd := &cobra.Command{
		Use:   "translate [FILE]",
		Short: "Translate a body or a stream to another dialect and report losses",
		Long: `Translate reads a request, a response or a stream in one dialect from a file or
from standard input, and writes it in another dialect to standard output. It lists
losses on standard error. It opens no connection.`,
		Example: `  isogloss translate --from anthropic --to openai-chat request.json
  curl -sN … | isogloss translate --kind stream --from openai-chat --to anthropic`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&t.From, "from", "", "dialect to read: openai-chat, openai-responses, anthropic, gemini or converse")
	f.StringVar(&t.To, "to", "", "dialect to write")
	f.StringVar(&t.Kind, "kind", "request", "kind of input: request, response or stream")
	f.StringVar(&t.Model, "model", "", "upstream model name; the rules for this model apply")
	f.BoolVar(&t.Stream, "stream", false, "the request is streaming")
	f.StringVar(&mode, "fidelity", string(llm.Default), "how to treat losses: strict, default or loose")
	asJSON := f.Bool("json", false, "print the report as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t.Mode = llm.Mode(mode)
		in, err := readInput(cmd.InOrStdin(), args...)
		if err != nil {
			return err
		}
		out, err := t.Run(in)
		if out == nil {
			return err
		}
		if len(out.Body) > 0 {
			if _, err := cmd.OutOrStdout().Write(append(out.Body, '\n')); err != nil {
				return err
			}
		}
		if err != nil && len(out.Losses) == 0 {
			return err // nothing was translated, so there is no report
		}
		if printErr := printReport(cmd.ErrOrStderr(), out, *asJSON); printErr != nil {
			return printErr
		}
		return err
	}
	return cmd
}

func printReport(w io.Writer, out *translation.Translated, asJSON bool) error {
	if asJSON {
		return printJSON(w, out)
	}
	if len(out.Losses) == 0 {
		_, err := fmt.Fprintln(w, "exact: nothing was lost")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range out.Losses {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", l.Verdict, l.Path, l.Code, l.Note)
	}
	return tw.Flush()
}
