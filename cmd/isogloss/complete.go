package main

import (
	"context"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/app"
)

// completionTime limits how long a shell waits for names.
const completionTime = 2 * time.Second

// completionOptions returns the options of a command that the shell completes. Its
// PreRunE, which finds the file, has not run.
func completionOptions(cmd *cobra.Command) *app.Options {
	o := &app.Options{Env: os.LookupEnv, Version: buildVersion()}
	o.Config, _ = cmd.Flags().GetString("config")
	if o.Config == "" {
		o.Config = findConfig(o.Env)
	}
	return o
}

// completeKeys completes the name of a key, with its id as the description.
func completeKeys(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	o := completionOptions(cmd)
	addressGateway(cmd, o)
	ring, err := o.OpenExistingKeyring(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer func() { _ = ring.Close() }() // nothing was written
	keys, _ := ring.Keys(ctx, url.Values{})
	var names []string
	for _, k := range keys {
		if k.Revoked.IsZero() {
			names = append(names, k.Name+"\t"+k.ID)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeModels completes the name of a model, from the running gateway if there is one.
func completeModels(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	o := completionOptions(cmd)
	list, _, err := o.Models(ctx, app.Gateway)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, m := range list.Models {
		names = append(names, m.Model)
	}
	return append(names, list.Patterns...), cobra.ShellCompDirectiveNoFileComp
}
