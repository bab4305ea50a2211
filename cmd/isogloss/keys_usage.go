package main

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/api/amounts"
	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// defaultUsage is the period that `keys usage` shows unless --from is given.
const defaultUsage = 30 * 24 * time.Hour

func newKeysUsage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "usage [KEY]",
		Short: "Show requests, tokens and cost",
		Long: `Show requests, tokens and cost from the ledger, of one key or of all. --from and --to
are days, which begin at midnight UTC, or times; --to is exclusive. The ledger holds
whole hours, and gateways write a request to it about a second after its end. With
--by user or --by tag:KEY a dash stands for requests without one. Requests that the
gateway refused are not among the requests; they have no model and no tag. The sums
with the highest cost come first, unless they are grouped by hour or day.`,
		Example: `  isogloss keys usage -c isogloss.yaml --from 2026-11-01
  isogloss keys usage -c isogloss.yaml search --by day,model
  isogloss keys usage -c isogloss.yaml --by day,tag:team
  isogloss keys usage -c isogloss.yaml --org acme --by team --from 2026-10-01 --to 2026-11-01 --json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeKeys,
	}
	o := options(cmd)
	f := cmd.Flags()
	from := f.String("from", "", "first `DAY`, such as 2026-11-01, or time; 30 days before --to by default")
	to := f.String("to", "", "`DAY` or time at which to end; now by default")
	groups := f.StringSlice("by", []string{"key"}, "group by hour or day, org, team, key, model, target, and user or tag:KEY")
	order := f.String("order", "", "largest first by cost, requests or tokens, or name; cost by default, name if grouped by hour or day")
	org := f.String("org", "", "only of this organisation: the id or the name")
	team := f.String("team", "", "only of this team: the id or the name; of the organisation \"default\" without --org")
	f.String("model", "", "only of this model")
	f.String("target", "", "only those served by this target, such as openai/gpt-6-luna")
	f.String("user", "", "only of this end user, as the ledger has it")
	tag := f.String("tag", "", "only with this tag, such as team:search")
	asJSON := f.Bool("json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("model", completeModels)
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, args []string) error {
		if key, value, ok := strings.Cut(*tag, ":"); *tag != "" && (!ok || key == "" || value == "") {
			return fmt.Errorf("--tag: %q is not a tag; write one such as team:search", *tag)
		}
		begin, end, err := period(*from, *to, time.Now())
		if err != nil {
			return err
		}
		query := url.Values{"from": {begin.Format(time.RFC3339Nano)}, "to": {end.Format(time.RFC3339Nano)}, "group": {strings.Join(*groups, ",")}}
		setTenant(query, *org, *team)
		for _, name := range []string{"model", "target", "user", "tag"} {
			if value := f.Lookup(name).Value.String(); value != "" {
				query.Set(name, value)
			}
		}
		compare, err := usageOrder(*order, *groups)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			k, err := ring.Key(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			query.Set("key", k.ID)
		}
		u, err := ring.Usage(cmd.Context(), query)
		if err != nil {
			return err
		}
		slices.SortStableFunc(u.Sums, compare)
		if *asJSON {
			return printUsageJSON(cmd.OutOrStdout(), u)
		}
		if err := printUsage(cmd.OutOrStdout(), u, *groups); err != nil || u.Total.Refused == 0 {
			return err
		}
		query.Del("group")
		refused, err := ring.Refusals(cmd.Context(), query)
		if err != nil {
			return err
		}
		printRefusals(cmd.OutOrStdout(), refused)
		return nil
	})
	return cmd
}

// period returns the times that --from and --to name.
func period(from, to string, now time.Time) (begin, end time.Time, err error) {
	end = now
	if to != "" {
		if end, err = parseTime(to); err != nil {
			return begin, end, fmt.Errorf("--to: %q is not a day or time; write one such as 2026-11-01 or 2026-11-01T09:30:00Z", to)
		}
	}
	begin = end.Add(-defaultUsage)
	if from != "" {
		if begin, err = parseTime(from); err != nil {
			return begin, end, fmt.Errorf("--from: %q is not a day or time; write one such as 2026-11-01 or 2026-11-01T09:30:00Z", from)
		}
	}
	if !begin.Before(end) {
		return begin, end, fmt.Errorf("--from is %s, which is not before the end %s", timestamp(begin), timestamp(end))
	}
	return begin, end, nil
}

// usageOrder returns the order of sums with a name. The API orders them by what they are grouped by.
func usageOrder(name string, groups []string) (func(a, b admin.UsageSum) int, error) {
	if name == "" && (slices.Contains(groups, "hour") || slices.Contains(groups, "day")) {
		name = "name"
	}
	switch cmp.Or(name, "cost") {
	case "name":
		return func(_, _ admin.UsageSum) int { return 0 }, nil
	case "cost":
		return func(a, b admin.UsageSum) int { return cmp.Compare(dollarsOf(b.Cost), dollarsOf(a.Cost)) }, nil
	case "requests":
		return func(a, b admin.UsageSum) int { return cmp.Compare(b.Requests, a.Requests) }, nil
	case "tokens":
		return func(a, b admin.UsageSum) int { return cmp.Compare(inputOf(&b)+outputOf(&b), inputOf(&a)+outputOf(&a)) }, nil
	}
	return nil, fmt.Errorf("--order: %q is not an order; write cost, requests, tokens or name", name)
}

// dollarsOf returns an amount that the API has written.
func dollarsOf(text string) usage.Money {
	m, _ := usage.ParseMoney(text) // one that cannot be read comes last
	return m
}

func inputOf(s *admin.UsageSum) int64 {
	return s.Tokens.Input + s.Tokens.CacheRead + s.Tokens.CacheWrite
}

func outputOf(s *admin.UsageSum) int64 { return s.Tokens.Output + s.Tokens.Reasoning }

// usageColumns are the columns of a group, in the order of the table.
var usageColumns = []struct {
	group, title string
	value        func(s *admin.UsageSum) string
}{
	{"hour", "HOUR", func(s *admin.UsageSum) string { return s.Start.UTC().Format("2006-01-02 15:04") }},
	{"day", "DAY", func(s *admin.UsageSum) string { return s.Start.UTC().Format(time.DateOnly) }},
	{"org", "ORG", func(s *admin.UsageSum) string { return printable(withName(s.Org, s.OrgName)) }},
	{"team", "TEAM", func(s *admin.UsageSum) string {
		if s.Team == "" {
			return "-"
		}
		return printable(withName(s.Org+"/"+s.Team, s.TeamName))
	}},
	{"key", "KEY\tID", func(s *admin.UsageSum) string {
		return printable(s.KeyName) + "\t" + printable(s.Key)
	}},
	{"model", "MODEL", func(s *admin.UsageSum) string { return printable(s.Model) }},
	{"target", "TARGET", func(s *admin.UsageSum) string { return printable(s.Target) }},
}

// printable returns a text from outside as one cell of a table.
func printable(text string) string { return dash(plain.Line(text)) }

// withName returns an id with its name, if that says more.
func withName(id, name string) string {
	if name == "" || strings.EqualFold(name, id[strings.LastIndexByte(id, '/')+1:]) {
		return id
	}
	return id + " (" + name + ")"
}

func printUsage(w io.Writer, u admin.UsageView, groups []string) error {
	fmt.Fprintf(w, "%s to %s\n", timestamp(u.From), timestamp(u.To))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var titles []string
	for _, c := range usageColumns {
		if slices.Contains(groups, c.group) {
			titles = append(titles, c.title)
		}
	}
	label := labelOf(groups)
	if label != "" {
		titles = append(titles, strings.ToUpper(label))
	}
	titles = append(titles, "REQUESTS", "INPUT", "OUTPUT", "COST")
	if u.Total.Refused > 0 {
		titles = append(titles, "REFUSED")
	}
	fmt.Fprintln(tw, strings.Join(titles, "\t"))
	line := func(s *admin.UsageSum, cells []string) {
		cells = append(cells, number(s.Requests), number(inputOf(s)), number(outputOf(s)), "$"+plain.Line(s.Cost))
		if u.Total.Refused > 0 {
			cells = append(cells, number(s.Refused))
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	columns := 0
	for i := range u.Sums {
		s := &u.Sums[i]
		var cells []string
		for _, c := range usageColumns {
			if slices.Contains(groups, c.group) {
				cells = append(cells, c.value(s))
			}
		}
		if label != "" {
			cells = append(cells, printable(cmp.Or(s.User, s.Tag)))
		}
		line(s, cells)
		columns = strings.Count(strings.Join(cells, "\t"), "\t") + 1
	}
	if len(u.Sums) > 1 {
		line(&u.Total, append([]string{"TOTAL"}, make([]string, columns-1)...))
	}
	if err := tw.Flush(); err != nil || u.Total.Unpriced == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "%s without a known price are not in the cost; write their prices into the configuration\n", count(int(u.Total.Unpriced), "request"))
	return err
}

// printRefusals writes why requests were refused, one line for each key and reason.
func printRefusals(w io.Writer, list admin.RefusalList) {
	for _, r := range list.Refusals {
		of := "further keys"
		if r.Key != "" {
			of = cmp.Or(plain.Line(r.Name), plain.Line(r.Key))
		}
		fmt.Fprintf(w, "%s of %s refused: %s, last at %s\n", count(int(r.Count), "request"), of, plain.Line(r.Reason), timestamp(r.Last))
	}
}

// labelOf returns the label that usage is grouped by: user, tag:KEY or "".
func labelOf(groups []string) string {
	for _, g := range groups {
		if g == "user" || strings.HasPrefix(g, "tag:") {
			return g
		}
	}
	return ""
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// usageRow is the usage of a group as JSON.
type usageRow struct {
	Start      time.Time `json:"start,omitzero"`
	Org        string    `json:"org,omitempty"`
	OrgName    string    `json:"org_name,omitempty"`
	Team       string    `json:"team,omitempty"`
	TeamName   string    `json:"team_name,omitempty"`
	Key        string    `json:"key,omitempty"`
	KeyName    string    `json:"key_name,omitempty"`
	Model      string    `json:"model,omitempty"`
	Target     string    `json:"target,omitempty"`
	User       string    `json:"user,omitempty"`
	Tag        string    `json:"tag,omitempty"`
	Requests   int64     `json:"requests"`
	Input      int64     `json:"input"`
	CacheRead  int64     `json:"cache_read"`
	CacheWrite int64     `json:"cache_write"`
	Output     int64     `json:"output"`
	Reasoning  int64     `json:"reasoning"`
	Cost       string    `json:"cost"`
	Unpriced   int64     `json:"unpriced"`
	Estimated  int64     `json:"estimated"`
	Errors     int64     `json:"errors"`
	Refused    int64     `json:"refused"`

	Units map[string]int64 `json:"units,omitempty"`
}

func printUsageJSON(w io.Writer, u admin.UsageView) error {
	rows := make([]usageRow, len(u.Sums))
	for i := range u.Sums {
		rows[i] = newUsageRow(&u.Sums[i])
	}
	return printJSON(w, struct {
		From  time.Time  `json:"from"`
		To    time.Time  `json:"to"`
		Sums  []usageRow `json:"sums"`
		Total usageRow   `json:"total"`
	}{u.From.UTC(), u.To.UTC(), rows, newUsageRow(&u.Total)})
}

func newUsageRow(s *admin.UsageSum) usageRow {
	return usageRow{Start: s.Start.UTC(), Org: s.Org, OrgName: s.OrgName, Team: s.Team, TeamName: s.TeamName, Key: s.Key, KeyName: s.KeyName, Model: s.Model, Target: s.Target, User: s.User, Tag: s.Tag,
		Requests: s.Requests, Input: s.Tokens.Input, CacheRead: s.Tokens.CacheRead, CacheWrite: s.Tokens.CacheWrite, Output: s.Tokens.Output, Reasoning: s.Tokens.Reasoning,
		Cost: s.Cost, Unpriced: s.Unpriced, Estimated: s.Estimated, Errors: s.Errors, Refused: s.Refused, Units: unitsOf(s.Tokens)}
}

// unitsOf returns the amounts of the units that have no member of their own, by name.
func unitsOf(t amounts.Tokens) map[string]int64 {
	if len(t.Units) == 0 {
		return nil
	}
	m := make(map[string]int64, len(t.Units))
	for _, u := range t.Units {
		m[u.Unit] = u.Amount
	}
	return m
}
