package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/cmd/isogloss/login"
)

func newLogin() *cobra.Command {
	return &cobra.Command{
		Use:   "login URL",
		Short: "Sign in at a gateway with the company account",
		Long: `Sign in at a gateway with the company account. The command shows a link and a code;
open the link in a browser on any device and sign in there. The tokens are kept in a
file that only you can read. 'isogloss token' prints a valid one for programs and for
the admin API.`,
		Example: `  isogloss login https://gateway.example.com
  OPENAI_API_KEY=$(isogloss token) my-program`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := logins()
			if err != nil {
				return err
			}
			flow, err := l.Start(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "Open %s\nand continue if it shows the code %s. Waiting for the sign-in ...\n", flow.URL, flow.Code)
			mail, err := flow.Wait(cmd.Context())
			if err != nil {
				return err
			}
			as := ""
			if mail != "" {
				as = " as " + mail
			}
			_, err = fmt.Fprintf(out, "Signed in%s. 'isogloss token' prints a token for programs.\n", as)
			return err
		},
	}
}

func newToken() *cobra.Command {
	return &cobra.Command{
		Use:   "token [URL]",
		Short: "Print a valid token of a sign-in",
		Long: `Print a token of the sign-in at a gateway, valid for at least one minute and renewed if
necessary. A gateway accepts it wherever it accepts a key. Without URL there must be
one sign-in.`,
		Example: `  curl https://gateway.example.com/v1/models -H "Authorization: Bearer $(isogloss token)"`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := logins()
			if err != nil {
				return err
			}
			token, err := l.Token(cmd.Context(), first(args))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
}

func newLogout() *cobra.Command {
	return &cobra.Command{
		Use:   "logout [URL]",
		Short: "End a sign-in",
		Long:  "End the sign-in at a gateway: its tokens are revoked and forgotten. Without URL there must be\none sign-in.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := logins()
			if err != nil {
				return err
			}
			at, err := l.Out(cmd.Context(), first(args))
			if at != "" && err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "Signed out of "+at+".")
			}
			return err
		},
	}
}

func logins() (*login.Logins, error) {
	file, err := login.DefaultFile()
	return &login.Logins{File: file}, err
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
