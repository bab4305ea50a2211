package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
)

func newModels() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models and their targets",
		Long: `List the models and their targets, with what is known of each: context window, output
limit, price in dollars per million tokens, and the day on which its vendor ends it.

The command queries the running gateway over its admin port. If nothing listens
there, it reads the configuration and has the providers list their models for names
that end in *. With --offline it contacts nobody and uses the built-in table. Set
ISOGLOSS_OPERATOR_KEY where the admin port needs an operator's key.`,
		Example: `  isogloss models -c isogloss.yaml
  isogloss models -c isogloss.yaml --json | jq -r '.[].model'`,
		Args: noArguments,
	}
	o := options(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	offline := cmd.Flags().Bool("offline", false, "contact neither the gateway nor providers")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		reach := app.Providers
		if *offline {
			reach = app.Nobody
		}
		list, _, err := o.Models(cmd.Context(), reach)
		if err != nil {
			return err
		}
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), list.Models)
		} else {
			err = printModels(cmd.OutOrStdout(), list.Models)
		}
		if len(list.Patterns) > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "isogloss: no model is known for %s; the provider has served no list of its models\n", strings.Join(list.Patterns, ", "))
		}
		return err
	}
	return cmd
}

func printModels(w io.Writer, rows []models.ListedModel) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "MODEL\tTARGET\tPROTOCOL\tBASE URL\tCONTEXT\tOUTPUT\tPRICE\tENDS")
	for _, row := range rows {
		first := []string{row.Model, tokens(row.Context), tokens(row.MaxOutput), priceText(row.Price), dash(row.Shutdown)}
		if len(row.Targets) == 0 { // of discovered workers, none of which is known here
			row.Targets = []models.ListedTarget{{Target: "-", Protocol: "-", BaseURL: "-"}}
		}
		for _, t := range row.Targets {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", first[0], t.Target, t.Protocol, t.BaseURL, first[1], first[2], first[3], first[4])
			first = make([]string, len(first))
		}
	}
	return tw.Flush()
}

// tokens formats a number of tokens.
func tokens(n int64) string {
	switch {
	case n == 0:
		return "-"
	case n%1000 == 0:
		return number(n/1000) + "k"
	}
	return number(n)
}

// priceText formats a price as dollars per million tokens, in and out.
func priceText(p *models.ListedPrice) string {
	if p == nil {
		return "-"
	}
	return "$" + perMillion(p.Input) + " / $" + perMillion(p.Output)
}

func perMillion(perToken string) string {
	r, ok := new(big.Rat).SetString(perToken)
	if !ok {
		return "?"
	}
	text := r.Mul(r, big.NewRat(1_000_000, 1)).FloatString(4)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
