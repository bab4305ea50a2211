package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/app"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "isogloss",
		Short: "An LLM gateway that loses nothing on the way, or says what it lost",
		Long: `Isogloss is an LLM gateway: clients speak the dialect of OpenAI, Anthropic or
Gemini to any model. Where the model's provider speaks the same, every byte
passes but those that the configuration changes; where it does not, the gateway
translates and says what it could not carry.`,
		Example: `  OPENAI_API_KEY=... isogloss serve      # no file needed
  isogloss serve -c isogloss.yaml`,
		Args:                       knownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		DisableFlagsInUseLine:      true,
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
	}
	root.AddCommand(newServe(), newCheck(), newModels(), newKeys(), newRegister(), newExplain(), newTranslate(), newConform(), newCapture(), newReplay(), newVersion(), newCompletion())
	root.CompletionOptions.DisableDefaultCmd = true // ours is one page, not five
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; '%s --help' lists the flags", err, cmd.CommandPath())
	})
	return root
}

// knownCommand says what there is in place of a command that there is not.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "'isogloss --help' lists the commands"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean '" + strings.Join(near, "' or '") + "'?"
	}
	return fmt.Errorf("there is no command %q; %s", args[0], hint)
}

// options are what the flags say; every command that reads a configuration has
// the same ones.
func options(cmd *cobra.Command) *app.Options {
	o := &app.Options{Env: os.LookupEnv, Log: os.Stderr, Version: buildVersion()}
	cmd.Flags().StringVarP(&o.Config, "config", "c", "", "configuration `FILE`; without one, keys in the environment say it all")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // only completion needs it
	cmd.PreRunE = noEmptyFlags
	return o
}

// noEmptyFlags refuses what a script's unset variable leaves behind: -c "" would
// else mean that there is no file.
func noEmptyFlags(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"config", "listen", "pid-file"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s is empty; give it a value, or leave it out", name)
		}
	}
	return nil
}

// noArguments refuses arguments. A file that was given as one is the common slip.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Lookup("config") != nil {
		return fmt.Errorf("%s takes no arguments; write '%s -c %s' for a configuration file", cmd.Name(), cmd.CommandPath(), args[0])
	}
	return fmt.Errorf("%s takes no arguments, and there is %q", cmd.Name(), args[0])
}

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve models",
		Long: `Serve models until SIGTERM or SIGINT.

Without a file, each provider whose key is in the environment is served under
its own prefix: OPENAI_API_KEY gives openai/*, GROQ_API_KEY groq/*, and so on.
Engines that run on this machine are found on their usual ports (llama.cpp, vLLM,
SGLang, Ollama, LM Studio), also when they are started later; their models are
served by their own names. Where llama.cpp has port 8080 already, the gateway
takes 8082.

The configuration file is loaded again when it changes. A file with a mistake is
refused, with its line in the log, and the old one stays in use.

A gateway without keys listens on this machine only. The log goes to standard
error and metrics are at http://127.0.0.1:8081/metrics; neither holds a key, a
prompt or an answer.

On a signal the gateway says "draining" at /health, closes its port, and waits
for open requests; what takes longer than 25 seconds ends with an error that
clients can read. A second signal ends it at once.

SIGHUP starts this program's file anew, which may be another version by then, and
hands the ports over to the new process. The old one says "draining", finishes
what is open within ten minutes, and ends. If the new one does not get ready, the
old one goes on.`,
		Example: `  OPENAI_API_KEY=... isogloss serve
  isogloss serve -c isogloss.yaml
  isogloss serve -c isogloss.yaml --listen 127.0.0.1:9000
  isogloss serve -c isogloss.yaml --pid-file /run/isogloss.pid

  curl http://127.0.0.1:8080/v1/models`,
		Args: noArguments,
	}
	o := options(cmd)
	cmd.Flags().StringVar(&o.Listen, "listen", "", "listen on `HOST:PORT` and not on the configuration's (127.0.0.1:8080 if it has none)")
	pidFile := cmd.Flags().String("pid-file", "", "write the pid of the process that serves to `FILE`; it is another one after SIGHUP")
	alone := cmd.Flags().Bool("no-discover", false, "without a file: do not look for engines on this machine")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Local = !*alone
		return runServe(cmd.Context(), *o, *pidFile)
	}
	return cmd
}

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a configuration, and say all that is wrong with it",
		Long: `Check a configuration with the code that serve runs at its start, and say all
that is wrong with it: file, line, and what to write. Nothing is contacted. The
exit code is 1 if there is a mistake.`,
		Example: "  isogloss check -c isogloss.yaml",
		Args:    noArguments,
	}
	o := options(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := o.LoadConfig()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "ok: %s on %s, to be served on %s\n",
			count(len(cfg.Models), "model"), count(len(cfg.Providers), "provider"), cfg.Listen)
		return err
	}
	return cmd
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: noArguments}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), map[string]string{"version": buildVersion(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "isogloss %s (%s, %s/%s)\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	}
	return cmd
}

func newCompletion() *cobra.Command {
	shells := []string{"bash", "fish", "powershell", "zsh"}
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a script that completes commands and flags in your shell",
		Example: `  source <(isogloss completion bash)                                  # bash, this session
  isogloss completion zsh > "${fpath[1]}/_isogloss"                   # zsh
  isogloss completion fish > ~/.config/fish/completions/isogloss.fish # fish
  isogloss completion powershell | Out-String | Invoke-Expression     # PowerShell, this session`,
		ValidArgs:             shells,
		DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("completion takes one shell; write one of %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(out, true)
			case "fish":
				return cmd.Root().GenFishCompletion(out, true)
			case "powershell":
				return cmd.Root().GenPowerShellCompletionWithDesc(out)
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			}
			return fmt.Errorf("completion: %q is not a shell that is known; write one of %s", args[0], strings.Join(shells, ", "))
		},
	}
}
