package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/api/admin/client"
	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Manage the keys of clients and operators",
		Long: `Create, list, show, change, rotate and revoke the keys of clients and operators, set
their budgets and those of teams and organisations, and show their usage. The
commands ask the running gateway of the configuration, as its user or as root. If
none runs, they open the store of the configuration. Running gateways apply a
change within two seconds. Commands take a key's name or id. A key is shown once,
when it is created: the store holds only its digest.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().String("listen", "", "use the running gateway on `ADDRESS`, whatever the file says")
	cmd.PersistentFlags().String("socket", "", "use the gateway with the socket `FILE`, if it is not found automatically")
	cmd.AddCommand(newKeysCreate(), newKeysList(), newKeysShow(), newKeysUpdate(), newKeysBudget(), newKeysUsage(), newKeysRotate(), newKeysRevoke(), newKeysTeams(), newKeysOrgs(), newKeysMine())
	return cmd
}

// withKeyring runs a command with the running gateway, or with the store open. What it prints is plain, whatever the gateway
// sends: root may use a gateway of another user.
func withKeyring(o *app.Options, do func(cmd *cobra.Command, k *app.Keyring, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		addressGateway(cmd, o)
		k, err := o.OpenKeyring(cmd.Context())
		if err != nil {
			return err
		}
		for _, note := range k.Notes {
			plain.Fprintf(cmd.ErrOrStderr(), "isogloss: warning: %s\n", note)
		}
		return errors.Join(withFlags(do(cmd, k, args)), k.Close())
	}
}

// addressGateway sets the gateway that the flags name.
func addressGateway(cmd *cobra.Command, o *app.Options) {
	o.Listen, _ = cmd.Flags().GetString("listen") // every command below `keys` has both
	o.Socket, _ = cmd.Flags().GetString("socket")
}

// withFlags returns an error of the admin API with the names of flags instead of members.
func withFlags(err error) error {
	var e *client.Error
	if !errors.As(err, &e) || len(e.Errors) == 0 {
		return err
	}
	texts := make([]string, len(e.Errors))
	for i, m := range e.Errors {
		texts[i] = flagOf(m.Location) + ": " + m.Message
	}
	return errors.New(strings.Join(texts, "; "))
}

// flagOf returns the flag for a member, such as --budget for body.limits.budgets[0].
func flagOf(location string) string {
	name, _, _ := strings.Cut(location, "[")
	name = name[strings.LastIndexByte(name, '.')+1:]
	switch name {
	case "id":
		return "the id"
	case "budgets":
		name = "budget"
	case "window_seconds":
		name = "window"
	case "overlap_seconds":
		name = "keep"
	case "group":
		name = "by"
	}
	return "--" + strings.TrimSuffix(name, "_per_minute")
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
		body, err := k.body(cmd, time.Now())
		if err != nil {
			return err
		}
		if err := warn(cmd, ring, "", k.name, k.models); err != nil {
			return err
		}
		made, err := ring.CreateKey(cmd.Context(), body)
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

// warn prints what is probably a mistake in a key. A new key has no id.
func warn(cmd *cobra.Command, ring *app.Keyring, id, name string, models []string) error {
	warnings, err := ring.Warnings(cmd.Context(), id, name, models)
	for _, text := range warnings {
		plain.Fprintf(cmd.ErrOrStderr(), "isogloss: warning: %s\n", text)
	}
	return err
}

// body returns the key that the flags describe.
func (k *keyFlags) body(cmd *cobra.Command, now time.Time) (admin.KeyBody, error) {
	if k.org == "" && k.role == "" {
		k.org = "default"
	}
	switch {
	case k.name == "":
		return admin.KeyBody{}, errors.New("--name is required; write the purpose of the key")
	case k.role == "" && len(k.models) == 0:
		return admin.KeyBody{}, errors.New("--models is required; write the models that the key may use, or '*' for all")
	}
	c, err := k.change(cmd, admin.Key{Role: k.role}, now)
	if err != nil {
		return admin.KeyBody{}, err
	}
	return admin.KeyBody{Name: k.name, Org: k.org, Team: k.team, Role: k.role, Models: k.models, Endpoints: k.endpoints, Networks: valueOf(c.Networks),
		Expires: valueOf(c.Expires), Criticality: k.criticality, Limits: c.Limits}, nil
}

// change returns what the given flags change of a key.
func (k *keyFlags) change(cmd *cobra.Command, of admin.Key, now time.Time) (c admin.KeyChange, err error) {
	c = admin.KeyChange{Name: given(cmd, "name", &k.name), Team: given(cmd, "team", &k.team), Models: given(cmd, "models", &k.models),
		Endpoints: given(cmd, "endpoints", &k.endpoints), Criticality: given(cmd, "criticality", &k.criticality)}
	switch {
	case of.Role != "" && len(k.models) > 0:
		return c, errors.New("--models is for client keys and --role for operator keys; create two keys")
	case of.Role == "" && c.Models != nil && len(k.models) == 0:
		return c, errors.New("--models is empty; write the models that the key may use, or '*' for all")
	}
	if given(cmd, "networks", &k.networks) != nil {
		if c.Networks, err = parseNetworks(k.networks); err != nil {
			return c, err
		}
	}
	if given(cmd, "expires", &k.expires) != nil {
		if c.Expires, err = parseExpiry(k.expires, now); err != nil {
			return c, err
		}
	}
	c.Limits, err = k.limit.change(cmd, of.Limits)
	return c, err
}

// given returns the value of a flag, or nil if it is not given.
func given[T any](cmd *cobra.Command, flag string, value *T) *T {
	if cmd.Flags().Changed(flag) {
		return value
	}
	return nil
}

// valueOf returns what a pointer points to. The value of nil is zero.
func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// parseNetworks returns networks without the bits behind their prefix.
func parseNetworks(texts []string) (*[]string, error) {
	list := make([]string, len(texts))
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--networks: %q is not a network; write one such as 10.0.0.0/8", text)
		}
		list[i] = p.Masked().String()
	}
	return &list, nil
}

// parseExpiry reads a lifetime, a time or "never".
func parseExpiry(text string, now time.Time) (*string, error) {
	if text == "never" {
		return &text, nil
	}
	if d, err := settings.ParseDuration(text); err == nil && d > 0 {
		return new(now.Add(d).Format(time.RFC3339Nano)), nil
	}
	t, err := parseTime(text)
	if err != nil {
		return nil, fmt.Errorf("--expires: %q is neither a lifetime nor a time; write one such as 90d or 2027-01-31, or never", text)
	}
	return new(t.Format(time.RFC3339Nano)), nil
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

// change returns what the given flags change of limits.
func (l *limitFlags) change(cmd *cobra.Command, of admin.LimitsView) (*admin.LimitsChange, error) {
	c := admin.LimitsChange{Requests: given(cmd, "requests", &l.requests), Tokens: given(cmd, "tokens", &l.tokens), Concurrency: given(cmd, "concurrency", &l.concurrency)}
	if given(cmd, "budget", &l.budget) != nil {
		if err := setBudgets(&c, l.budget); err != nil {
			return nil, fmt.Errorf("--budget: %w", err)
		}
	}
	if given(cmd, "window", &l.window) != nil {
		return &c, setWindow(&c, of, l.window, "--budget")
	}
	return &c, nil
}

// setBudgets sets budgets. One amount without a window changes the amount of the first budget, "none"
// removes all, and otherwise all are replaced.
func setBudgets(c *admin.LimitsChange, texts []string) error {
	all := []admin.Budget{}
	for _, text := range texts {
		if text == "none" && len(texts) == 1 {
			break
		}
		amount, window, hasWindow := strings.Cut(text, "/")
		money, err := usage.ParseMoney(amount)
		if err != nil || money <= 0 {
			return fmt.Errorf("%q is not an amount; write dollars such as 20 or 0.50, or none", amount)
		}
		b := admin.Budget{Budget: money.Decimal()}
		if hasWindow {
			d, err := settings.ParseDuration(window)
			if b.Window = int64(d / time.Second); err != nil || b.Window <= 0 {
				return fmt.Errorf("%q is not a window; write a budget with one such as 5/24h or 100/30d", window)
			}
		} else if len(texts) == 1 {
			c.Budget = &b.Budget
			return nil
		}
		all = append(all, b)
	}
	c.Budgets = &all
	return nil
}

// setWindow sets the window of a single budget.
func setWindow(c *admin.LimitsChange, of admin.LimitsView, window time.Duration, flag string) error {
	all := budgetsOf(of)
	if c.Budgets != nil {
		all = *c.Budgets
	} else if c.Budget != nil && len(all) == 0 {
		all = []admin.Budget{{Budget: *c.Budget}}
	}
	switch {
	case len(all) == 0:
		return errors.New("--window needs a budget; write " + flag + " too")
	case len(all) > 1:
		return errors.New("--window is for a single budget; write each budget with its window, such as 5/24h")
	case window%time.Second != 0:
		return errors.New("--window: a window has whole seconds; write one such as 1h or 30d")
	}
	seconds := int64(window / time.Second)
	if c.Budgets != nil {
		all[0].Window = seconds
	} else {
		c.Window = &seconds
	}
	return nil
}

// budgetsOf returns all budgets of a limit.
func budgetsOf(l admin.LimitsView) []admin.Budget {
	if len(l.Budgets) == 0 && l.Budget != "0" && l.Budget != "" {
		return []admin.Budget{{Budget: l.Budget, Window: l.Window}}
	}
	return l.Budgets
}

func printMade(w io.Writer, store string, made admin.KeyMade, asJSON bool) error {
	if asJSON {
		return printJSON(w, struct {
			ID      string     `json:"id"`
			Key     string     `json:"key"`
			Expires *time.Time `json:"expires"` // null: never
			Store   string     `json:"store"`
		}{made.Key.ID, made.Text, orNil(made.Key.Expires), store})
	}
	_, err := plain.Fprintf(w, "%s\n\nid %s. The key is not shown again; the store %s holds only its digest.\n%s\n", made.Text, made.Key.ID, store, expiry(made.Key.Expires))
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
		Use:   "list",
		Short: "List keys with what they have spent in the last 30 days",
		Long: `List keys with what they have spent in the last 30 days and the hour (UTC) of their
last request. Requests that the gateway refused do not count.`,
		Example: `  isogloss keys list -c isogloss.yaml --org acme --team search`,
		Args:    noArguments,
	}
	o := options(cmd)
	f := cmd.Flags()
	org := f.String("org", "", "only of this organisation: the id or the name")
	team := f.String("team", "", "only of this team: the id or the name; of the organisation \"default\" without --org")
	state := f.String("state", "", "only in this state: active, blocked, expired, removed or revoked")
	asJSON := f.Bool("json", false, "print JSON")
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, _ []string) error {
		if !slices.Contains([]string{"", "active", "blocked", "expired", "removed", "revoked"}, *state) {
			return fmt.Errorf("--state: %q is not a state; write active, blocked, expired, removed or revoked", *state)
		}
		query := url.Values{"spent": {"30d"}}
		setTenant(query, *org, *team)
		keys, err := ring.Keys(cmd.Context(), query)
		if err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys, func(k admin.Key) bool { return *state != "" && k.State != *state })
		rows := make([]keyRow, len(keys))
		for i := range keys {
			rows[i] = newKeyRow(&keys[i])
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), rows)
		}
		tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "ID\tNAME\tORG\tTEAM\tACCESS\tBUDGET\tSPENT 30D\tLAST USED\tEXPIRES\tSTATE")
		for _, r := range rows {
			spent, last := r.use()
			plain.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Name, printable(withName(r.Org, r.OrgName)), printable(withName(r.Team, r.TeamName)), r.access(), r.budget(), spent, last, r.expiry(), r.State)
		}
		return tw.Flush()
	})
	return cmd
}

// setTenant limits a query to an organisation, or to a team of it.
func setTenant(query url.Values, org, team string) {
	if team != "" {
		query.Set("team", team)
		org = cmp.Or(org, "default")
	}
	if org != "" {
		query.Set("org", org)
	}
}

// limitRow holds limits as JSON.
type limitRow struct {
	Requests    int64 `json:"requests_per_minute,omitempty"`
	Tokens      int64 `json:"tokens_per_minute,omitempty"`
	Concurrency int64 `json:"concurrency,omitempty"`
	amountRow
}

func newLimitRow(l admin.LimitsView) limitRow {
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

func newAmountRow(l admin.LimitsView) (row amountRow) {
	for i, b := range budgetsOf(l) {
		one := oneBudget{Budget: b.Budget}
		if b.Window > 0 {
			one.Window = settings.FormatDuration(time.Duration(b.Window) * time.Second)
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
	OrgName     string   `json:"org_name,omitempty"`
	Team        string   `json:"team,omitempty"`
	TeamName    string   `json:"team_name,omitempty"`
	Role        string   `json:"role,omitempty"`
	State       string   `json:"state"` // active, expired, revoked, removed or blocked
	Models      []string `json:"models,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
	Networks    []string `json:"networks,omitempty"`
	Criticality string   `json:"criticality,omitempty"`
	limitRow
	Created  time.Time  `json:"created"`
	Expires  *time.Time `json:"expires"` // null: never
	Revoked  *time.Time `json:"revoked,omitempty"`
	Spent30d string     `json:"spent_30d,omitempty"` // only where it is asked for
	LastUsed *time.Time `json:"last_used,omitempty"` // the hour
}

func newKeyRow(k *admin.Key) keyRow {
	return keyRow{ID: k.ID, Name: k.Name, Org: k.Org, OrgName: k.OrgName, Team: k.Team, TeamName: k.TeamName, Role: k.Role, State: k.State, Models: k.Models, Endpoints: k.Endpoints, Networks: k.Networks,
		Criticality: k.Criticality, limitRow: newLimitRow(k.Limits), Created: k.Created, Expires: orNil(k.Expires), Revoked: orNil(k.Revoked),
		Spent30d: k.Spent, LastUsed: orNil(k.LastUsed)}
}

// use formats what the key has spent and its last use for table columns. Operators' keys send no requests.
func (r keyRow) use() (spent, last string) {
	switch {
	case r.Role != "":
		return "-", "-"
	case r.LastUsed == nil:
		return "$" + r.Spent30d, "never"
	}
	return "$" + r.Spent30d, timestamp(*r.LastUsed)
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
		k, err := ring.UsedKey(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printKey(cmd.OutOrStdout(), &k, *asJSON)
	})
	return cmd
}

// printKey prints a key without its secret.
func printKey(w io.Writer, k *admin.Key, asJSON bool) error {
	row := newKeyRow(k)
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
	lines := [][2]string{
		{"id", row.ID}, {"name", plain.Line(row.Name)}, {"state", row.State}, {"org", printable(row.Org)}, {"team", printable(row.Team)}, {"access", row.access()},
		{"endpoints", orAll(row.Endpoints)}, {"networks", orAll(row.Networks)}, {"criticality", row.Criticality},
		{"requests per minute", limitText(row.Requests)}, {"tokens per minute", limitText(row.Tokens)}, {"concurrency", limitText(row.Concurrency)},
		{"budget", row.budget()}, {"created", timestamp(row.Created)}, {"expires", row.expiry()},
	}
	if row.Spent30d != "" {
		spent, last := row.use()
		lines = append(lines, [2]string{"spent in 30 days", spent}, [2]string{"last used", last})
	}
	for _, line := range lines {
		plain.Fprintf(tw, "%s\t%s\n", line[0], line[1])
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
