package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newInit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented configuration for what is found here",
		Long: `Write a commented configuration for the providers whose keys are in the environment
and for the engines that run on this machine (llama.cpp, vLLM, SGLang, Ollama, LM
Studio), and check it. The file names the variables and holds no key. It is
isogloss.yaml by default; - is standard output.`,
		Example: `  OPENAI_API_KEY=... isogloss init
  isogloss init /etc/isogloss/isogloss.yaml --force`,
		Args: cobra.MaximumNArgs(1),
	}
	o := optionalConfig(cmd, "")
	_ = cmd.Flags().MarkHidden("config") // the file is an argument
	force := cmd.Flags().Bool("force", false, "overwrite the file")
	alone := cmd.Flags().Bool("no-discover", false, "do not search for engines on this machine")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file := "isogloss.yaml"
		switch {
		case len(args) > 0:
			file = args[0]
		case o.Config != "":
			file = o.Config
		}
		o.Config, o.Local = "", !*alone
		out := cmd.OutOrStdout()
		if file == "-" {
			text, err := o.Draft(cmd.Context())
			if err == nil {
				_, err = out.Write(text)
			}
			return err
		}
		cfg, err := o.Init(cmd.Context(), file, *force)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s is written and checked: %s on %s.\n", file, count(len(cfg.Models), "model"), count(len(cfg.Providers), "provider"))
		for _, p := range cfg.Providers {
			fmt.Fprintf(out, "  %s at %s\n", p.Name, p.BaseURL.Host)
		}
		_, err = fmt.Fprintf(out, "Serve it with 'isogloss serve -c %s'.\n", file)
		return err
	}
	return cmd
}
