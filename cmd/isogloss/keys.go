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

	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Manage the keys of clients and operators",
		Long: `Create, list, show, change, rotate and revoke the keys of clients and operators, set
their budgets and those of teams and organisations, and show their usage. The
commands use the store of the configuration and need no running gateway. Running
gateways apply a change within two seconds. Commands take a key's name or id. A key
is shown once, when it is created: the store holds only its digest.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeysCreate(), newKeysList(), newKeysShow(), newKeysUpdate(), newKeysBudget(), newKeysUsage(), newKeysRotate(), newKeysRevoke(), newKeysTeams(), newKeysOrgs())
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

// keyFlags holds the flags of `keys create` and `keys update`.
type keyFlags struct {
	name, org, team, role, criticality string
	models, endpoints, networks        []string
	expires                            string
	limit                              limitFlags
}

func newKeysCreate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a key and print it once",
		Long: `Create a key and print it once. A client key needs --models. A key with --role is
an operator key: it gives access to the admin API and to no model.`,
		Example: `  isogloss keys create -c isogloss.yaml --name search --models 'fast,openai/*'
  isogloss keys create -c isogloss.yaml --name ci --models '*' --budget 20 --window 30d --requests 60
  isogloss keys create -c isogloss.yaml --name me --role owner`,
		Args: noArguments,
	}
	o := options(cmd)
	f := cmd.Flags()
	var k keyFlags
	k.add(cmd)
	f.StringVar(&k.org, "org", "", "organisation; \"default\" for client keys, all organisations for operator keys")
	f.StringVar(&k.role, "role", "", "create an operator key with this role: owner, admin, billing, auditor or key-manager")
	asJSON := f.Bool("json", false, "print JSON")
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, _ []string) error {
		record, err := k.record(cmd, time.Now())
		if err != nil {
			return err
		}
		if err := warn(cmd, ring, &record); err != nil {
			return err
		}
		made, err := ring.Create(cmd.Context(), record)
		if err != nil {
			return err
		}
		return printMade(cmd.OutOrStdout(), ring.Store, made, *asJSON)
	})
	return cmd
}

// add adds the flags of what can be changed later.
func (k *keyFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&k.name, "name", "", "purpose of the key")
	f.StringVar(&k.team, "team", "", "team; created if it does not exist")
	f.StringSliceVar(&k.models, "models", nil, "models it may use, by the names that clients use; a trailing * matches any suffix")
	f.StringSliceVar(&k.endpoints, "endpoints", nil, "endpoints it may use, such as chat_completions or messages (of an operator: admin, scim); all by default")
	f.StringSliceVar(&k.networks, "networks", nil, "client networks it may be used from, such as 10.0.0.0/8; all by default")
	k.limit.add(cmd)
	f.StringVar(&k.expires, "expires", "", "lifetime from now, such as 90d, a `TIME` such as 2027-01-31, or never; never by default, 90d for operator keys")
	f.StringVar(&k.criticality, "criticality", "normal", "priority under overload: critical, normal or sheddable")
	_ = cmd.RegisterFlagCompletionFunc("models", completeModels)
}

// warn prints what is probably a mistake in a key.
func warn(cmd *cobra.Command, ring *app.Keyring, r *access.Record) error {
	warnings, err := ring.Warnings(cmd.Context(), r.ID, r.Name, r.Models)
	for _, text := range warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "isogloss: warning:", text)
	}
	return err
}

// operatorTTL is how long an operator's key is valid unless --expires is given.
const operatorTTL = 90 * 24 * time.Hour

// record converts the flags to a record.
func (k *keyFlags) record(cmd *cobra.Command, now time.Time) (access.Record, error) {
	if k.org == "" && k.role == "" {
		k.org = "default"
	}
	r := access.Record{Org: k.org, Role: access.Role(k.role), Criticality: k.criticality, Created: now}
	if k.role != "" {
		r.Expires = now.Add(operatorTTL)
	}
	roles := []string{"", string(access.Owner), string(access.Admin), string(access.Billing), string(access.Auditor), string(access.KeyManager)}
	switch {
	case k.name == "":
		return r, errors.New("--name is required; write the purpose of the key")
	case !slices.Contains(roles, k.role):
		return r, fmt.Errorf("--role: %q is not known; write one of %s", k.role, strings.Join(roles[1:], ", "))
	case k.role == "" && len(k.models) == 0:
		return r, errors.New("--models is required; write the models that the key may use, or '*' for all")
	case k.org != "" && (k.role == string(access.Owner) || k.role == string(access.Admin)):
		return r, fmt.Errorf("--org: the role %s applies to all organisations; omit --org or choose another role", k.role)
	}
	return r, k.apply(cmd, &r, now)
}

// apply sets what the given flags change.
func (k *keyFlags) apply(cmd *cobra.Command, r *access.Record, now time.Time) error {
	changed := cmd.Flags().Changed
	switch {
	case changed("name") && k.name == "":
		return errors.New("--name is empty; write the purpose of the key")
	case r.Role != "" && k.team != "":
		return errors.New("an operator's key belongs to no team; leave --team out, or leave --role out for a client's key")
	case r.Role != "" && len(k.models) > 0:
		return errors.New("--models is for client keys and --role for operator keys; create two keys")
	case r.Role == "" && changed("models") && len(k.models) == 0:
		return errors.New("--models is empty; write the models that the key may use, or '*' for all")
	case !slices.Contains([]string{"critical", "normal", "sheddable"}, k.criticality):
		return fmt.Errorf("--criticality: %q is not known; write critical, normal or sheddable", k.criticality)
	}
	for flag, set := range map[string]func() error{
		"name":        func() error { r.Name = k.name; return nil },
		"team":        func() error { r.Team = k.team; return nil },
		"models":      func() error { r.Models = k.models; return nil },
		"endpoints":   func() error { r.Endpoints = k.endpoints; return nil },
		"criticality": func() error { r.Criticality = k.criticality; return nil },
		"networks":    func() (err error) { r.Networks, err = parseNetworks(k.networks); return err },
		"expires":     func() (err error) { r.Expires, err = parseExpiry(k.expires, now); return err },
	} {
		if changed(flag) {
			if err := set(); err != nil {
				return err
			}
		}
	}
	return k.limit.apply(cmd, &r.Limit)
}

func parseNetworks(texts []string) (list []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--networks: %q is not a network; write one such as 10.0.0.0/8", text)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// parseExpiry reads a lifetime, a time or "never", which is the zero time.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	if text == "never" {
		return time.Time{}, nil
	}
	if d, err := config.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	t, err := parseTime(text)
	switch {
	case err != nil:
		return t, fmt.Errorf("--expires: %q is neither a lifetime nor a time; write one such as 90d or 2027-01-31, or never", text)
	case !t.After(now):
		return t, fmt.Errorf("--expires: %s is past; write a later time, or revoke the key", text)
	}
	return t, nil
}

// parseTime reads a day, which begins at midnight UTC, or an RFC 3339 time.
func parseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, text)
}

// limitFlags holds the flags of limits.
type limitFlags struct {
	requests, tokens, concurrency int64
	budget                        []string
	window                        time.Duration
}

func (l *limitFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Int64Var(&l.requests, "requests", 0, "requests per minute; 0 is no limit")
	f.Int64Var(&l.tokens, "tokens", 0, "tokens per minute; 0 is no limit")
	f.Int64Var(&l.concurrency, "concurrency", 0, "open requests, across all gateways; 0 is no limit")
	f.StringArrayVar(&l.budget, "budget", nil, "budget in dollars, such as 20, 0.50 or, with its window, 5/24h; or none; repeat it for several")
	durationVar(cmd, &l.window, "window", "sliding window of a single budget, such as 30d; 0 is all time")
}

// apply sets what the given flags change.
func (l *limitFlags) apply(cmd *cobra.Command, limit *app.Limit) error {
	changed := cmd.Flags().Changed
	if min(l.requests, l.tokens, l.concurrency) < 0 {
		return errors.New("a limit is negative; write a positive number, or 0 for no limit")
	}
	if changed("requests") {
		limit.Requests = l.requests
	}
	if changed("tokens") {
		limit.Tokens = l.tokens
	}
	if changed("concurrency") {
		limit.Concurrency = l.concurrency
	}
	if changed("budget") {
		if err := setBudgets(limit, l.budget); err != nil {
			return fmt.Errorf("--budget: %w", err)
		}
	}
	if changed("window") {
		return setWindow(limit, l.window, "--budget")
	}
	return nil
}

// setBudgets sets budgets. One amount without a window changes the amount of the first budget, "none"
// removes all, and otherwise all are replaced.
func setBudgets(limit *app.Limit, texts []string) error {
	all := make([]app.Budget, len(texts))
	for i, text := range texts {
		if text == "none" && len(texts) == 1 {
			return limit.SetBudgets(nil)
		}
		amount, window, hasWindow := strings.Cut(text, "/")
		money, err := usage.ParseMoney(amount)
		if err != nil || money <= 0 {
			return fmt.Errorf("%q is not an amount; write dollars such as 20 or 0.50, or none", amount)
		}
		all[i].Amount = money
		if hasWindow {
			if all[i].Window, err = config.ParseDuration(window); err != nil || all[i].Window <= 0 {
				return fmt.Errorf("%q is not a window; write a budget with one such as 5/24h or 100/30d", window)
			}
		} else if len(texts) == 1 {
			limit.Budget = money
			return nil
		}
	}
	return limit.SetBudgets(all)
}

// setWindow sets the window of a single budget.
func setWindow(limit *app.Limit, window time.Duration, flag string) error {
	all := limit.Budgets()
	switch {
	case len(all) == 0:
		return errors.New("--window needs a budget; write " + flag + " too")
	case len(all) > 1:
		return errors.New("--window is for a single budget; write each budget with its window, such as 5/24h")
	}
	limit.Window = window
	return nil
}

func printMade(w io.Writer, store string, made app.MadeKey, asJSON bool) error {
	if asJSON {
		return printJSON(w, struct {
			ID      string     `json:"id"`
			Key     string     `json:"key"`
			Expires *time.Time `json:"expires"` // null: never
			Store   string     `json:"store"`
		}{made.ID, made.Text.Reveal(), orNil(made.Expires), store})
	}
	_, err := fmt.Fprintf(w, "%s\n\nid %s. The key is not shown again; the store %s holds only its digest.\n%s\n", made.Text.Reveal(), made.ID, store, expiry(made.Expires))
	return err
}

// expiry says when a key expires.
func expiry(t time.Time) string {
	if t.IsZero() {
		return "It does not expire."
	}
	return "It expires at " + timestamp(t) + "."
}

// orNil returns nil for the zero time.
func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// timestamp formats a time in UTC, to the second.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func newKeysList() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List keys",
		Example: `  isogloss keys list -c isogloss.yaml --org search`,
		Args:    noArguments,
	}
	o := options(cmd)
	org := cmd.Flags().String("org", "", "list the keys of this organisation only")
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
		fmt.Fprintln(tw, "ID\tNAME\tORG\tTEAM\tACCESS\tBUDGET\tEXPIRES\tSTATE")
		for _, r := range rows {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, plain.Line(r.Name), r.Org, r.Team, r.access(), r.budget(), r.expiry(), r.State)
		}
		return tw.Flush()
	})
	return cmd
}

// limitRow holds limits as JSON.
type limitRow struct {
	Requests    int64 `json:"requests_per_minute,omitempty"`
	Tokens      int64 `json:"tokens_per_minute,omitempty"`
	Concurrency int64 `json:"concurrency,omitempty"`
	amountRow
}

func newLimitRow(l app.Limit) limitRow {
	return limitRow{Requests: l.Requests, Tokens: l.Tokens, Concurrency: l.Concurrency, amountRow: newAmountRow(l)}
}

// amountRow holds the budgets as JSON: the first, and all of them if there are several.
type amountRow struct {
	oneBudget
	Budgets []oneBudget `json:"budgets,omitempty"`
}

// oneBudget holds the amount of a budget and its window as JSON.
type oneBudget struct {
	Budget string `json:"budget,omitempty"`
	Window string `json:"window,omitempty"`
	Spent  string `json:"spent,omitempty"` // only where it is asked for
}

func newAmountRow(l app.Limit) (row amountRow) {
	for i, b := range l.Budgets() {
		one := oneBudget{Budget: b.Amount.Decimal()}
		if b.Window > 0 {
			one.Window = config.FormatDuration(b.Window)
		}
		if i == 0 {
			row.oneBudget = one
		}
		row.Budgets = append(row.Budgets, one)
	}
	if len(row.Budgets) == 1 {
		row.Budgets = nil
	}
	return row
}

// budget formats the budgets with their windows.
func (r amountRow) budget() string {
	texts := make([]string, len(r.Budgets))
	for i, b := range r.Budgets {
		texts[i] = b.text()
	}
	if len(texts) == 0 {
		return r.text()
	}
	return strings.Join(texts, ", ")
}

func (b oneBudget) text() string {
	switch {
	case b.Budget == "":
		return "-"
	case b.Window == "":
		return "$" + b.Budget
	}
	return "$" + b.Budget + " in " + b.Window
}

// keyRow is a key without its secret.
type keyRow struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Org         string   `json:"org"`
	Team        string   `json:"team,omitempty"`
	Role        string   `json:"role,omitempty"`
	State       string   `json:"state"` // active, expired, revoked, removed or blocked
	Models      []string `json:"models,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
	Networks    []string `json:"networks,omitempty"`
	Criticality string   `json:"criticality,omitempty"`
	limitRow
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires"` // null: never
	Revoked *time.Time `json:"revoked,omitempty"`
}

func newKeyRow(r *access.Record, now time.Time) keyRow {
	row := keyRow{ID: r.ID, Name: r.Name, Org: r.Org, Team: r.Team, Role: string(r.Role), State: keyState(r, now), Models: r.Models, Endpoints: r.Endpoints,
		Criticality: r.Criticality, limitRow: newLimitRow(r.Limit), Created: r.Created}
	for _, n := range r.Networks {
		row.Networks = append(row.Networks, n.String())
	}
	row.Expires, row.Revoked = orNil(r.Expires), orNil(r.Revoked)
	return row
}

func keyState(r *access.Record, now time.Time) string {
	switch {
	case !r.Revoked.IsZero():
		return "revoked"
	case !r.Removed.IsZero():
		return "removed"
	case !r.Expires.IsZero() && now.After(r.Expires):
		return "expired"
	case r.Blocked():
		return "blocked"
	}
	return "active"
}

// expiry formats the expiry for a table column.
func (r keyRow) expiry() string {
	if r.Expires == nil {
		return "never"
	}
	return timestamp(*r.Expires)
}

// access formats the key's models or role.
func (r keyRow) access() string {
	if r.Role != "" {
		return "admin API as " + r.Role
	}
	return strings.Join(r.Models, ",")
}

func newKeysShow() *cobra.Command {
	cmd := &cobra.Command{Use: "show KEY", Short: "Show a key without its secret", Example: `  isogloss keys show -c isogloss.yaml search`, Args: oneKey, ValidArgsFunction: completeKeys}
	o := options(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, args []string) error {
		r, err := ring.Find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printKey(cmd.OutOrStdout(), &r, *asJSON)
	})
	return cmd
}

// printKey prints a key without its secret.
func printKey(w io.Writer, r *access.Record, asJSON bool) error {
	row := newKeyRow(r, time.Now())
	if asJSON {
		return printJSON(w, row)
	}
	orAll := func(list []string) string {
		if len(list) == 0 {
			return "all"
		}
		return strings.Join(list, ", ")
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"id", row.ID}, {"name", plain.Line(row.Name)}, {"state", row.State}, {"org", dash(row.Org)}, {"team", dash(row.Team)}, {"access", row.access()},
		{"endpoints", orAll(row.Endpoints)}, {"networks", orAll(row.Networks)}, {"criticality", row.Criticality},
		{"requests per minute", limitText(row.Requests)}, {"tokens per minute", limitText(row.Tokens)}, {"concurrency", limitText(row.Concurrency)},
		{"budget", row.budget()}, {"created", timestamp(row.Created)}, {"expires", row.expiry()},
	} {
		fmt.Fprintf(tw, "%s\t%s\n", line[0], line[1])
	}
	return tw.Flush()
}

// limitText formats a limit for a table; 0 is none.
func limitText(n int64) string {
	if n == 0 {
		return "-"
	}
	return number(n)
}

// oneKey wants the name or id of one key.
func oneKey(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the name or id of one key; 'isogloss keys list' shows them", cmd.Name())
	}
	return nil
}
