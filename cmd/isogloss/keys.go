package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and end the keys of clients and operators",
		Long: `Make, list and end the keys of clients and operators. The commands work on the
store that the configuration names, whether or not a gateway runs; running ones
follow within two seconds. A key is shown once, when it is made: the store has
only a digest of it.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeysCreate(), newKeysList(), newKeysShow(), newKeysRevoke(), newKeysRotate())
	return cmd
}

// withKeyring runs a command with the store open.
func withKeyring(o *app.Options, do func(cmd *cobra.Command, k *app.Keyring, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		k, err := o.OpenKeyring(cmd.Context())
		if err != nil {
			return err
		}
		return errors.Join(do(cmd, k, args), k.Close())
	}
}

// keyFlags are a key as flags describe it.
type keyFlags struct {
	name, org, team, role, criticality string
	models, endpoints, networks        []string
	requests, tokens, concurrency      int64
	budget                             string
	window, expires                    time.Duration
}

func newKeysCreate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a key and print it, once",
		Long: `Make a key and print it, once. A client's key names the models that it opens;
with --role it is an operator's, which opens the admin API and no model.`,
		Example: `  isogloss keys create -c isogloss.yaml --name search --models 'fast,openai/*'
  isogloss keys create -c isogloss.yaml --name ci --models '*' --budget 20 --window 720h --requests 60
  isogloss keys create -c isogloss.yaml --name me --role owner`,
		Args: noArguments,
	}
	o := options(cmd)
	f := cmd.Flags()
	var k keyFlags
	f.StringVar(&k.name, "name", "", "what the key is for, in your words")
	f.StringVar(&k.org, "org", "", "its organisation; default for clients, and none for operators, who then see all")
	f.StringVar(&k.team, "team", "", "its team, which is made if it is new")
	f.StringVar(&k.role, "role", "", "make an operator's key: owner, admin, billing, auditor or key-manager")
	f.StringSliceVar(&k.models, "models", nil, "models that it opens, as clients call them; one that ends in * stands for all that begin so")
	f.StringSliceVar(&k.endpoints, "endpoints", nil, "endpoints that it opens, such as chat_completions or messages; all by default")
	f.StringSliceVar(&k.networks, "networks", nil, "where it may be used, such as 10.0.0.0/8; everywhere by default")
	f.Int64Var(&k.requests, "requests", 0, "requests a minute")
	f.Int64Var(&k.tokens, "tokens", 0, "tokens a minute")
	f.Int64Var(&k.concurrency, "concurrency", 0, "open requests at once, on all gateways together")
	f.StringVar(&k.budget, "budget", "", "dollars that it may spend, such as 20 or 0.50")
	f.DurationVar(&k.window, "window", 0, "the time that the budget is for, such as 720h; all time by default")
	f.DurationVar(&k.expires, "expires", 0, "when it ends, such as 2160h; never by default, for operators after 90 days")
	f.StringVar(&k.criticality, "criticality", "normal", "how much its requests matter: critical, normal or sheddable")
	asJSON := f.Bool("json", false, "print JSON")
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, _ []string) error {
		record, err := k.record(time.Now())
		if err != nil {
			return err
		}
		made, err := ring.Create(cmd.Context(), record)
		if err != nil {
			return err
		}
		return printMade(cmd.OutOrStdout(), made, *asJSON)
	})
	return cmd
}

// operatorLife is how long an operator's key lives unless it is told: people leave.
const operatorLife = 90 * 24 * time.Hour

// record is the key that the flags describe.
func (k *keyFlags) record(now time.Time) (access.Record, error) {
	if k.org == "" && k.role == "" {
		k.org = "default"
	}
	r := access.Record{Name: k.name, Org: k.org, Team: k.team, Role: access.Role(k.role), Models: k.models, Endpoints: k.endpoints, Criticality: k.criticality, Created: now}
	r.Limit.Requests, r.Limit.Tokens, r.Limit.Concurrency, r.Limit.Window = k.requests, k.tokens, k.concurrency, k.window
	if k.expires == 0 && k.role != "" {
		k.expires = operatorLife
	}
	if k.expires > 0 {
		r.Expires = now.Add(k.expires)
	}
	for _, text := range k.networks {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return r, fmt.Errorf("--networks: %q is no network; write one such as 10.0.0.0/8", text)
		}
		r.Networks = append(r.Networks, p.Masked())
	}
	if k.budget != "" {
		budget, err := usage.ParseMoney(k.budget)
		if err != nil || budget <= 0 {
			return r, fmt.Errorf("--budget: %q is no sum; write dollars such as 20 or 0.50", k.budget)
		}
		r.Limit.Budget = budget
	}
	return r, k.check()
}

func (k *keyFlags) check() error {
	roles := []string{"", string(access.Owner), string(access.Admin), string(access.Billing), string(access.Auditor), string(access.KeyManager)}
	switch {
	case k.name == "":
		return errors.New("--name is needed: it is how you find the key again")
	case !slices.Contains(roles, k.role):
		return fmt.Errorf("--role: %q is not known; write one of %s", k.role, strings.Join(roles[1:], ", "))
	case k.role == "" && len(k.models) == 0:
		return errors.New("--models is needed: write the models that the key opens, or '*' for all")
	case k.org != "" && (k.role == string(access.Owner) || k.role == string(access.Admin)):
		return fmt.Errorf("--org: a key with the role %s is above organisations; leave it out, or choose another role", k.role)
	case k.role != "" && len(k.models) > 0:
		return errors.New("--models is for clients' keys, and --role for operators'; make two keys")
	case k.window != 0 && k.budget == "":
		return errors.New("--window is the time of a budget; write --budget as well")
	case !slices.Contains([]string{"critical", "normal", "sheddable"}, k.criticality):
		return fmt.Errorf("--criticality: %q is not known; write critical, normal or sheddable", k.criticality)
	case min(k.requests, k.tokens, k.concurrency) < 0:
		return errors.New("a limit is negative; write how many, or leave it out for none")
	}
	return nil
}

func printMade(w io.Writer, made app.MadeKey, asJSON bool) error {
	if asJSON {
		return printJSON(w, map[string]string{"id": made.ID, "key": made.Text.Reveal()})
	}
	_, err := fmt.Fprintf(w, "%s\n\nid %s. The key is not shown again: only its digest is kept.\n", made.Text.Reveal(), made.ID)
	return err
}

func newKeysList() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List keys",
		Example: `  isogloss keys list -c isogloss.yaml --org search`,
		Args:    noArguments,
	}
	o := options(cmd)
	org := cmd.Flags().String("org", "", "those of an organisation only")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, _ []string) error {
		records, err := ring.List(cmd.Context(), *org)
		if err != nil {
			return err
		}
		rows := make([]keyRow, len(records))
		for i := range records {
			rows[i] = newKeyRow(&records[i], time.Now())
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), rows)
		}
		tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "ID\tNAME\tORG\tTEAM\tOPENS\tBUDGET\tSTATE")
		for _, r := range rows {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Name, r.Org, r.Team, r.opens(), r.Budget, r.State)
		}
		return tw.Flush()
	})
	return cmd
}

// keyRow is a key as it is shown: nothing in it opens anything.
type keyRow struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Org         string     `json:"org"`
	Team        string     `json:"team,omitempty"`
	Role        string     `json:"role,omitempty"`
	State       string     `json:"state"` // active, expired, revoked or blocked
	Models      []string   `json:"models,omitempty"`
	Endpoints   []string   `json:"endpoints,omitempty"`
	Networks    []string   `json:"networks,omitempty"`
	Criticality string     `json:"criticality,omitempty"`
	Requests    int64      `json:"requests_per_minute,omitempty"`
	Tokens      int64      `json:"tokens_per_minute,omitempty"`
	Concurrency int64      `json:"concurrency,omitempty"`
	Budget      string     `json:"budget,omitempty"`
	Window      string     `json:"window,omitempty"`
	Created     time.Time  `json:"created"`
	Expires     *time.Time `json:"expires,omitempty"`
	Revoked     *time.Time `json:"revoked,omitempty"`
}

func newKeyRow(r *access.Record, now time.Time) keyRow {
	row := keyRow{ID: r.ID, Name: r.Name, Org: r.Org, Team: r.Team, Role: string(r.Role), State: keyState(r, now), Models: r.Models, Endpoints: r.Endpoints,
		Criticality: r.Criticality, Requests: r.Limit.Requests, Tokens: r.Limit.Tokens, Concurrency: r.Limit.Concurrency, Created: r.Created}
	for _, n := range r.Networks {
		row.Networks = append(row.Networks, n.String())
	}
	if r.Limit.Budget > 0 {
		row.Budget = r.Limit.Budget.String()
	}
	if r.Limit.Window > 0 {
		row.Window = r.Limit.Window.String()
	}
	if !r.Expires.IsZero() {
		row.Expires = &r.Expires
	}
	if !r.Revoked.IsZero() {
		row.Revoked = &r.Revoked
	}
	return row
}

func keyState(r *access.Record, now time.Time) string {
	switch {
	case !r.Revoked.IsZero():
		return "revoked"
	case !r.Expires.IsZero() && now.After(r.Expires):
		return "expired"
	case r.Blocked:
		return "blocked"
	}
	return "active"
}

// opens is what a key is for, in a column.
func (r keyRow) opens() string {
	if r.Role != "" {
		return "admin API as " + r.Role
	}
	return strings.Join(r.Models, ",")
}

func newKeysShow() *cobra.Command {
	cmd := &cobra.Command{Use: "show ID", Short: "Show a key, without what it is made of", Example: `  isogloss keys show -c isogloss.yaml ID`, Args: oneID}
	o := options(cmd)
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, args []string) error {
		r, err := ring.Show(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printJSON(cmd.OutOrStdout(), newKeyRow(&r, time.Now()))
	})
	return cmd
}

func newKeysRevoke() *cobra.Command {
	cmd := &cobra.Command{Use: "revoke ID", Short: "End a key for good, on every gateway within two seconds", Example: `  isogloss keys revoke -c isogloss.yaml ID`, Args: oneID}
	o := options(cmd)
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, args []string) error {
		if err := ring.Revoke(cmd.Context(), args[0]); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is revoked\n", args[0])
		return err
	})
	return cmd
}

func newKeysRotate() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rotate ID",
		Short:   "Give a key a new secret, and print it; the old one works for a while",
		Example: `  isogloss keys rotate -c isogloss.yaml ID --keep 1h`,
		Args:    oneID,
	}
	o := options(cmd)
	keep := cmd.Flags().Duration("keep", 24*time.Hour, "how long the old secret still works")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, args []string) error {
		if *keep < 0 {
			return errors.New("--keep is negative; write a time such as 1h, or 0 for none")
		}
		made, err := ring.Rotate(cmd.Context(), args[0], *keep)
		if err != nil {
			return err
		}
		return printMade(cmd.OutOrStdout(), made, *asJSON)
	})
	return cmd
}

func oneID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the id of one key; 'isogloss keys list' shows them", cmd.Name())
	}
	return nil
}
