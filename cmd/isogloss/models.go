package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/config"
)

func newModels() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models of a configuration and who serves them",
		Long: `List the models of a configuration and who serves them. Nothing is contacted: a
name that ends in * stands for every model that the provider has.`,
		Example: `  isogloss models -c isogloss.yaml
  isogloss models -c isogloss.yaml --json | jq -r '.[].model'`,
		Args: noArguments,
	}
	o := options(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := o.LoadConfig()
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), modelRows(cfg))
		}
		return printModels(cmd.OutOrStdout(), modelRows(cfg))
	}
	return cmd
}

// modelRow is a model as `isogloss models` shows it.
type modelRow struct {
	Model   string      `json:"model"`
	OwnedBy string      `json:"owned_by"`
	Targets []targetRow `json:"targets"`
}

type targetRow struct {
	Target   string `json:"target"`
	Protocol string `json:"protocol"`
	BaseURL  string `json:"base_url"`
	Weight   int    `json:"weight"`
}

func modelRows(cfg *config.Config) []modelRow {
	rows := make([]modelRow, 0, len(cfg.Models))
	for _, m := range cfg.Models {
		row := modelRow{Model: m.Name, OwnedBy: m.OwnedBy}
		for _, t := range m.Targets {
			row.Targets = append(row.Targets, newTargetRow(t))
		}
		rows = append(rows, row)
	}
	return rows
}

// newTargetRow shows a target. Which workers will be found is not known here.
func newTargetRow(t config.Target) targetRow {
	row := targetRow{Target: t.String(), Weight: t.Weight}
	if t.Provider != nil {
		row.Protocol, row.BaseURL = string(t.Provider.Protocol), address(t.Provider.BaseURL)
	}
	return row
}

// address is a URL without its query, which may hold a credential.
func address(u *url.URL) string {
	shown := *u
	shown.RawQuery = ""
	return shown.String()
}

func printModels(w io.Writer, rows []modelRow) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "MODEL\tTARGET\tPROTOCOL\tBASE URL")
	for _, row := range rows {
		name := row.Model
		for _, t := range row.Targets {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", name, t.Target, t.Protocol, t.BaseURL)
			name = ""
		}
	}
	return tw.Flush()
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
