package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/app"
)

func newKeysUpdate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "update KEY",
		Short: "Change a key's name, team, models, limits or expiry",
		Long: `Change what the given flags name, and nothing else. Every gateway applies the change
within two seconds.`,
		Example: `  isogloss keys update -c isogloss.yaml search --models 'fast,openai/*' --requests 120
  isogloss keys update -c isogloss.yaml search --expires 30d --budget none`,
		Args:              oneKey,
		ValidArgsFunction: completeKeys,
	}
	o := options(cmd)
	var k keyFlags
	k.add(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, args []string) error {
		if !changesAny(cmd) {
			return errors.New("nothing to change; 'isogloss keys update --help' lists what can be changed")
		}
		key, err := ring.Key(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		change, err := k.change(cmd, key, time.Now())
		if err != nil {
			return err
		}
		if key, err = ring.UpdateKey(cmd.Context(), key, change); err != nil {
			return err
		}
		if err := warn(cmd, ring, key.ID, key.Name, key.Models); err != nil {
			return err
		}
		return printKey(cmd.OutOrStdout(), &key, *asJSON)
	})
	return cmd
}

// changesAny reports whether a flag other than those of every command is given.
func changesAny(cmd *cobra.Command) bool {
	n := cmd.Flags().NFlag()
	for _, name := range []string{"config", "json", "org", "listen", "socket"} {
		if cmd.Flags().Changed(name) {
			n--
		}
	}
	return n > 0
}

func newKeysBudget() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "budget [KEY] [AMOUNT[/WINDOW]]...",
		Short: "Show or set the budgets of a key, a team or an organisation",
		Long: `Show budgets and what is spent of them, or set them: an amount in dollars, or none.
Up to four budgets with different windows hold at once.
--team and --org name a team or an organisation instead of a key.`,
		Example: `  isogloss keys budget -c isogloss.yaml search
  isogloss keys budget -c isogloss.yaml search 50 --window 30d
  isogloss keys budget -c isogloss.yaml search 5/24h 50/30d
  isogloss keys budget -c isogloss.yaml --team web --org acme 200 --window 30d
  isogloss keys budget -c isogloss.yaml --org acme none`,
		ValidArgsFunction: completeKeys,
	}
	o := options(cmd)
	var b budgetFlags
	f := cmd.Flags()
	f.StringVar(&b.org, "org", "", "the organisation's budget, or with --team the team's organisation")
	f.StringVar(&b.team, "team", "", "the team's budget; of the organisation \"default\" without --org")
	durationVar(cmd, &b.window, "window", "sliding window of a single budget, such as 30d; 0 is all time")
	asJSON := f.Bool("json", false, "print JSON")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if !b.ofTenant() && len(args) == 0 {
			return errors.New("budget takes a key, or --team or --org, and the amounts to set; 'isogloss keys budget --help' has examples")
		}
		return nil
	}
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, args []string) error {
		row, err := b.run(cmd, ring, args)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), row)
		}
		if row.Budget == "" {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has no budget and has spent $%s\n", row.Of, row.Spent)
			return err
		}
		all := row.Budgets
		if all == nil {
			all = []oneBudget{row.oneBudget}
		}
		for _, one := range all {
			if _, err = fmt.Fprintf(cmd.OutOrStdout(), "%s has spent $%s of %s\n", row.Of, one.Spent, one.text()); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

// budgetFlags holds the flags of `keys budget`.
type budgetFlags struct {
	org, team string
	window    time.Duration
}

// ofTenant reports whether the budgets are those of a team or an organisation.
func (b *budgetFlags) ofTenant() bool { return b.team != "" || b.org != "" }

// budgetRow has budgets and what is spent of them.
type budgetRow struct {
	Of string `json:"of"` // the key's name, team ORG/TEAM or org ORG
	ID string `json:"id,omitempty"`
	amountRow
}

func newBudgetRow(of, id string, u admin.UseView) budgetRow {
	row := budgetRow{of, id, newAmountRow(u.Limits)}
	row.Spent = u.Spent
	for i := range row.Budgets {
		row.Budgets[i].Spent = u.Budgets[i].Spent
	}
	return row
}

// run sets budgets if an amount or a window is given, and returns them.
func (b *budgetFlags) run(cmd *cobra.Command, ring *app.Keyring, args []string) (budgetRow, error) {
	if b.ofTenant() {
		return b.runTenant(cmd, ring, args)
	}
	key, err := ring.Key(cmd.Context(), args[0])
	if err != nil {
		return budgetRow{}, err
	}
	limits, err := b.change(cmd, args[1:], key.Limits)
	if err == nil && limits != nil {
		_, err = ring.UpdateKey(cmd.Context(), key, admin.KeyChange{Limits: limits})
	}
	if err != nil {
		return budgetRow{}, err
	}
	use, err := ring.KeyUse(cmd.Context(), key.ID)
	return newBudgetRow(key.Name, key.ID, use), err
}

// runTenant is run for a team or an organisation.
func (b *budgetFlags) runTenant(cmd *cobra.Command, ring *app.Keyring, amounts []string) (budgetRow, error) {
	org := cmp.Or(b.org, "default")
	t, err := ring.Tenant(cmd.Context(), org, b.team)
	if err != nil {
		return budgetRow{}, err
	}
	limits, err := b.change(cmd, amounts, t.Limits)
	if err == nil && limits != nil {
		_, err = ring.UpdateTenant(cmd.Context(), org, b.team, admin.TenantChange{Limits: limits})
	}
	if err != nil {
		return budgetRow{}, err
	}
	of := "organisation " + org
	if b.team != "" {
		of = "team " + org + "/" + b.team
	}
	use, err := ring.TenantUse(cmd.Context(), org, b.team)
	return newBudgetRow(of, "", use), err
}

// change returns the change of budgets, or nil if neither an amount nor a window is given.
func (b *budgetFlags) change(cmd *cobra.Command, amounts []string, of admin.LimitsView) (*admin.LimitsChange, error) {
	window := given(cmd, "window", &b.window)
	if len(amounts) == 0 && window == nil {
		return nil, nil
	}
	c := new(admin.LimitsChange)
	if len(amounts) > 0 {
		if err := setBudgets(c, amounts); err != nil {
			return nil, err
		}
	}
	if window == nil {
		return c, nil
	}
	return c, setWindow(c, of, *window, "an amount")
}

func newKeysRevoke() *cobra.Command {
	cmd := &cobra.Command{Use: "revoke KEY", Short: "Revoke a key for good, on every gateway within two seconds", Example: `  isogloss keys revoke -c isogloss.yaml search`, Args: oneKey, ValidArgsFunction: completeKeys}
	o := options(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, args []string) error {
		k, err := ring.RevokeKey(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), newKeyRow(&k))
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s (%s) is revoked\n", k.Name, k.ID)
		return err
	})
	return cmd
}

func newKeysRotate() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "rotate KEY",
		Short:             "Give a key a new secret and print it; the old one works for a while",
		Example:           `  isogloss keys rotate -c isogloss.yaml search --keep 1h`,
		Args:              oneKey,
		ValidArgsFunction: completeKeys,
	}
	o := options(cmd)
	keep := 24 * time.Hour
	durationVar(cmd, &keep, "keep", "how long the old secret still works")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, args []string) error {
		made, err := ring.RotateKey(cmd.Context(), args[0], keep)
		if err != nil {
			return err
		}
		return printMade(cmd.OutOrStdout(), ring.Store, made, *asJSON)
	})
	return cmd
}
