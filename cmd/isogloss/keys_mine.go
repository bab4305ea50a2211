package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/cmd/isogloss/login"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
)

// ownKey is an own key, as the client port shows it.
type ownKey struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	State   string     `json:"state"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires"`
	Models  []string   `json:"models"`
}

// ownKeyMade is an own key with its text.
type ownKeyMade struct {
	Key  ownKey `json:"key"`
	Text string `json:"text"`
}

// ownKeyPath is the endpoint of own keys at the client port.
const ownKeyPath = "/v1/key"

func newKeysMine() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mine",
		Short: "Show and manage your own keys at a gateway at which you are signed in",
		Long: `List, create, rotate and revoke your own keys. It asks the gateway at which you are
signed in ('isogloss login URL') and needs no configuration. Requests with your keys
are yours: they count for your limits and budgets, and end with your account. The
operator's rules say how many keys you may have, for how long and for which models.`,
		Example: `  isogloss keys mine
  isogloss keys mine create ci --models fast --expires 7d`,
		Args: knownCommand,
	}
	at := cmd.PersistentFlags().String("at", "", "the `URL` of the gateway, if you are signed in at several")
	asJSON := cmd.PersistentFlags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		keys, err := ownKeys(cmd, *at)
		if err != nil {
			return err
		}
		return printOwnKeys(cmd.OutOrStdout(), keys, *asJSON)
	}
	cmd.AddCommand(newMineCreate(at, asJSON), newMineRotate(at, asJSON), newMineRevoke(at))
	return cmd
}

func newMineCreate(at *string, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{Use: "create NAME", Short: "Create a key of yours and print it", Example: `  isogloss keys mine create ci --models fast --expires 7d`, Args: cobra.ExactArgs(1)}
	models := cmd.Flags().StringSlice("models", nil, "models that it may use (default: all that the rules allow)")
	expires := cmd.Flags().String("expires", "", "lifetime or time of its expiry (default: as late as the rules allow)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in := map[string]any{"name": args[0]}
		if len(*models) > 0 {
			in["models"] = *models
		}
		if *expires != "" {
			text, err := parseExpiry(*expires, time.Now())
			if err != nil {
				return err
			}
			in["expires"] = *text
		}
		var made ownKeyMade
		if err := callMine(cmd, *at, http.MethodPost, ownKeyPath, in, &made); err != nil {
			return err
		}
		return printOwnKey(cmd.OutOrStdout(), &made, *asJSON)
	}
	return cmd
}

func newMineRotate(at *string, asJSON *bool) *cobra.Command {
	cmd := &cobra.Command{Use: "rotate KEY", Short: "Give a key of yours a new text and print it; the old one works for a while", Example: `  isogloss keys mine rotate ci --keep 1h`, Args: cobra.ExactArgs(1)}
	keep := 24 * time.Hour
	durationVar(cmd, &keep, "keep", "how long the old text still works")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := findOwnKey(cmd, *at, args[0])
		if err != nil {
			return err
		}
		var made ownKeyMade
		if err := callMine(cmd, *at, http.MethodPost, ownKeyPath+"/"+url.PathEscape(key.ID)+"/rotate", map[string]any{"overlap_seconds": int64(keep / time.Second)}, &made); err != nil {
			return err
		}
		return printOwnKey(cmd.OutOrStdout(), &made, *asJSON)
	}
	return cmd
}

func newMineRevoke(at *string) *cobra.Command {
	cmd := &cobra.Command{Use: "revoke KEY", Short: "Revoke a key of yours for good", Example: `  isogloss keys mine revoke ci`, Args: cobra.ExactArgs(1)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := findOwnKey(cmd, *at, args[0])
		if err != nil {
			return err
		}
		if err := callMine(cmd, *at, http.MethodDelete, ownKeyPath+"/"+url.PathEscape(key.ID), nil, key); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s (%s) is revoked\n", plain.Line(key.Name), plain.Line(key.ID))
		return err
	}
	return cmd
}

// callMine calls an endpoint of the gateway as the person who is signed in.
func callMine(cmd *cobra.Command, at, method, path string, in, out any) error {
	var l *login.Logins
	l, err := logins()
	if err != nil {
		return err
	}
	return l.Call(cmd.Context(), at, method, path, in, out)
}

func ownKeys(cmd *cobra.Command, at string) ([]ownKey, error) {
	var list struct {
		Keys []ownKey `json:"keys"`
	}
	err := callMine(cmd, at, http.MethodGet, ownKeyPath, nil, &list)
	return list.Keys, err
}

// findOwnKey returns the key with an id, or the only active one with a name.
func findOwnKey(cmd *cobra.Command, at, idOrName string) (*ownKey, error) {
	keys, err := ownKeys(cmd, at)
	if err != nil {
		return nil, err
	}
	var named []*ownKey
	for i := range keys {
		k := &keys[i]
		if k.ID == idOrName {
			return k, nil
		}
		if k.Name == idOrName && k.State == "active" {
			named = append(named, k)
		}
	}
	switch len(named) {
	case 0:
		return nil, fmt.Errorf("you have no active key %q; 'isogloss keys mine' lists yours", idOrName)
	case 1:
		return named[0], nil
	}
	return nil, errors.New("several keys of yours have this name; write the id")
}

func printOwnKeys(w io.Writer, keys []ownKey, asJSON bool) error {
	if asJSON {
		return printJSON(w, keys)
	}
	if len(keys) == 0 {
		_, err := fmt.Fprintln(w, "You have no keys. 'isogloss keys mine create NAME' creates one, if the rules let you.")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ID\tNAME\tMODELS\tEXPIRES\tSTATE")
	for _, k := range keys {
		expires := "never"
		if k.Expires != nil {
			expires = timestamp(*k.Expires)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", plain.Line(k.ID), plain.Line(k.Name), plain.Line(strings.Join(k.Models, ",")), expires, plain.Line(k.State))
	}
	return tw.Flush()
}

func printOwnKey(w io.Writer, made *ownKeyMade, asJSON bool) error {
	if !plain.IsLine(made.Text) { // it is printed and sent in headers
		return errors.New("the gateway's answer has no key")
	}
	if asJSON {
		return printJSON(w, made)
	}
	var at time.Time
	if made.Key.Expires != nil {
		at = *made.Key.Expires
	}
	_, err := fmt.Fprintf(w, "%s\n\nid %s. The key is not shown again.\n%s\n", made.Text, plain.Line(made.Key.ID), expiry(at))
	return err
}
