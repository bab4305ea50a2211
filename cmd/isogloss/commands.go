package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/app"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "isogloss",
		Short: "An LLM gateway between five dialects that reports every loss",
		Long: `Isogloss is an LLM gateway. Clients use the dialect of OpenAI, Anthropic, Gemini
or Amazon Bedrock with any model. If the provider uses the same dialect, the gateway
forwards the bytes and changes only what the configuration changes. Otherwise it
translates and reports what it could not carry.`,
		Example: `  OPENAI_API_KEY=... isogloss serve      # no file needed
  isogloss serve -c isogloss.yaml`,
		Args:                       knownCommand,
		DisableFlagsInUseLine:      true,
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
	}
	// Not cobra's own flag: a version template costs 15 MB, because the linker keeps every
	// method that a template could call.
	version := root.Flags().BoolP("version", "v", false, "version for isogloss")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		}
		return cmd.Help()
	}
	root.SetHelpCommand(newHelp())
	root.AddCommand(newServe(), newConsume(), newInit(), newCheck(), newDoctor(), newModels(), newKeys(), newRegister(), newExplain(), newLogin(), newToken(), newLogout(), newTranslate(), newConform(), newCapture(), newReplay(), newVersion(), newCompletion())
	root.CompletionOptions.DisableDefaultCmd = true // the gateway's own completion command has one page, cobra's has five
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; '%s --help' lists the flags", err, cmd.CommandPath())
	})
	return root
}

// knownCommand rejects an unknown command and suggests the nearest one.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "'" + cmd.CommandPath() + " --help' lists the commands"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean '" + strings.Join(near, "' or '") + "'?"
	}
	return fmt.Errorf("unknown command %q; %s", args[0], hint)
}

// newHelp returns the help command. Unlike cobra's own it fails for an unknown command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range at.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.Root()
			for len(args) > 0 {
				i := slices.IndexFunc(at.Commands(), func(c *cobra.Command) bool { return c.Name() == args[0] || c.HasAlias(args[0]) })
				if i < 0 {
					return knownCommand(at, args)
				}
				at, args = at.Commands()[i], args[1:]
			}
			return at.Help()
		},
	}
}

// options adds the flag for the configuration file. A command without the flag looks for
// the file: see findConfig.
func options(cmd *cobra.Command) *app.Options {
	o := optionalConfig(cmd, "configuration `FILE` (default $ISOGLOSS_CONFIG, ./isogloss.yaml or /etc/isogloss/isogloss.yaml)")
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if o.Config == "" && !cmd.Flags().Changed("config") {
			o.Config = findConfig(o.Env)
		}
		return noEmptyFlags(cmd, args)
	}
	return o
}

// optionalConfig adds the flag for the configuration file to a command that does not look
// for one.
func optionalConfig(cmd *cobra.Command, usage string) *app.Options {
	o := &app.Options{Env: os.LookupEnv, Log: os.Stderr, Version: buildVersion()}
	cmd.Flags().StringVarP(&o.Config, "config", "c", "", usage)
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // only completion needs it
	cmd.PreRunE = noEmptyFlags
	return o
}

// withoutSettings looks up environment variables other than those of the gateway's own
// settings, for gateways that a command starts for its own use.
func withoutSettings(name string) (string, bool) {
	if strings.HasPrefix(name, "ISOGLOSS_") {
		return "", false
	}
	return os.LookupEnv(name)
}

// findConfig returns the configuration file that the environment names, or the one in a
// usual place, or "".
func findConfig(env func(string) (string, bool)) string {
	if path, _ := env("ISOGLOSS_CONFIG"); path != "" {
		return path
	}
	for _, path := range []string{"isogloss.yaml", "/etc/isogloss/isogloss.yaml"} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path
		}
	}
	return ""
}

// noEmptyFlags rejects empty values, which an unset variable in a script produces:
// -c "" would otherwise mean that there is no file.
func noEmptyFlags(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"config", "listen", "pid-file"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s is empty; give it a value, or leave it out", name)
		}
	}
	return nil
}

// noArguments rejects arguments. The usual mistake is a file without -c.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Lookup("config") != nil {
		return fmt.Errorf("%s takes no arguments; write '%s -c %s' for a configuration file", cmd.Name(), cmd.CommandPath(), args[0])
	}
	return fmt.Errorf("%s takes no arguments, but got %q", cmd.Name(), args[0])
}

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve models",
		Long: `Serve models until SIGTERM or SIGINT.

Without -c, the gateway reads ./isogloss.yaml or /etc/isogloss/isogloss.yaml if
there is one. Without any file, it serves each provider whose key is in the
environment under its own prefix: OPENAI_API_KEY gives openai/*, GROQ_API_KEY
groq/*, and so on. It then also finds engines on this machine on their default
ports (llama.cpp, vLLM, SGLang, Ollama, LM Studio), even if they start later, and
serves their models under their own names. If llama.cpp uses port 8080, the gateway
listens on 8082.

The gateway loads the configuration file again when it changes. It rejects an
invalid file, logs the line, and keeps the old configuration.

Without keys, identity providers and a store the gateway listens on this machine
only. The log goes to standard error, and metrics are at
http://127.0.0.1:8081/metrics. Neither contains a key, a prompt or a response.

These environment variables override the file, and flags override them:
ISOGLOSS_LISTEN, ISOGLOSS_ADMIN_LISTEN, ISOGLOSS_METRICS_LISTEN, ISOGLOSS_KEYS
(client keys, separated by commas), ISOGLOSS_DATA, ISOGLOSS_ZONE,
ISOGLOSS_SHUTDOWN_DRAIN, ISOGLOSS_LOG_LEVEL and ISOGLOSS_LOG_FORMAT.
ISOGLOSS_CONFIG names the file.

On SIGTERM or SIGINT the gateway reports "draining" at /ready for shutdown.notice
(1 second), closes its port and waits up to shutdown.drain (25 seconds) for open
requests. The remaining requests end with an error. A second signal stops the
gateway at once.

On SIGHUP the gateway starts the installed binary, which may be a new version, and
hands over its ports. The old process reports "draining" and finishes open
requests within ten minutes. If the new process does not become ready, the old one
continues.`,
		Example: `  OPENAI_API_KEY=... isogloss serve
  isogloss serve -c isogloss.yaml
  isogloss serve -c isogloss.yaml --listen 127.0.0.1:9000
  isogloss serve -c isogloss.yaml --pid-file /run/isogloss.pid
  ISOGLOSS_LISTEN=:8080 ISOGLOSS_KEYS=$(openssl rand -hex 24) OPENAI_API_KEY=... isogloss serve

  curl http://127.0.0.1:8080/v1/models`,
		Args: noArguments,
	}
	o := options(cmd)
	cmd.Flags().StringVar(&o.Listen, "listen", "", "listen on `HOST:PORT` instead of the configured address (default 127.0.0.1:8080)")
	pidFile := cmd.Flags().String("pid-file", "", "write the pid of the serving process to `FILE`; it changes with SIGHUP")
	alone := cmd.Flags().Bool("no-discover", false, "without a file: do not search for engines on this machine")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Local = !*alone
		return runServe(cmd.Context(), *o, *pidFile)
	}
	return cmd
}

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a configuration and report every error",
		Long: `Check a configuration with the code that serve runs at start-up, including the
certificates and other files that it names. Report every error with file, line and
what to write. The command opens no connection. It exits with 1 if there is an
error.`,
		Example: "  isogloss check -c isogloss.yaml",
		Args:    noArguments,
	}
	o := options(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := o.Check()
		if err != nil {
			return err
		}
		for _, list := range cfg.Prices.Old(time.Now()) {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: prices.lists: %s may be outdated; look them up again and write the day as as_of\n", list)
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
		_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
		return err
	}
	return cmd
}

// versionLine returns what `version` and --version print.
func versionLine() string {
	return fmt.Sprintf("isogloss %s (%s, %s/%s)", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
			return fmt.Errorf("completion: unknown shell %q; write one of %s", args[0], strings.Join(shells, ", "))
		},
	}
}
