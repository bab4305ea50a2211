package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/cell"
	"github.com/isogloss-gateway/isogloss/internal/heap"
)

func newRoute() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "route",
		Short: "Send requests to the cell of their organisation",
		Long: `Send requests to cells until SIGTERM or SIGINT. A cell is a set of gateways with a
store of their own. The router reads the cell in the name of a key (gw_CELL_...), or
finds it in its file by the id of the key or the issuer of a token. It checks no key
and stores nothing.

The router loads the file again when it changes. It rejects an invalid file and keeps
the old one. On SIGTERM or SIGINT it reports "draining" at /ready, closes its port and
waits for open requests.`,
		Example: `  isogloss route -c cells.yaml
  isogloss route -c cells.yaml --check`,
		Args: noArguments,
	}
	file := cmd.Flags().StringP("config", "c", "cells.yaml", "file with the cells")
	check := cmd.Flags().Bool("check", false, "check the file, report every error and exit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *check {
			c, err := cell.Check(*file)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "ok: %s, to be served on %s\n", count(len(c.Cells), "cell"), c.Listen)
			return err
		}
		heap.Tune()
		return cell.Run(untilSignal(), cell.Options{File: *file, Logger: slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil))})
	}
	return cmd
}
