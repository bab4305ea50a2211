package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/base/plain"
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
--by user or --by tag:KEY a dash stands for requests without one.`,
		Example: `  isogloss keys usage -c isogloss.yaml --from 2026-11-01
  isogloss keys usage -c isogloss.yaml search --by day,model
  isogloss keys usage -c isogloss.yaml --by day,tag:team
  isogloss keys usage -c isogloss.yaml --org acme --by team --from 2026-10-01 --to 2026-11-01 --json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeKeys,
	}
	o := options(cmd)
	f := cmd.Flags()
	var q app.UsageQuery
	from := f.String("from", "", "first `DAY`, such as 2026-11-01, or time; 30 days before --to by default")
	to := f.String("to", "", "`DAY` or time at which to end; now by default")
	f.StringSliceVar(&q.GroupBy, "by", []string{"key"}, "group by hour or day, org, team, key, model, target, and user or tag:KEY")
	f.StringVar(&q.Org, "org", "", "only of this organisation")
	f.StringVar(&q.Team, "team", "", "only of this team; needs --org")
	f.StringVar(&q.Model, "model", "", "only of this model")
	f.StringVar(&q.User, "user", "", "only of this end user, as the ledger has it")
	tag := f.String("tag", "", "only with this tag, such as team:search")
	asJSON := f.Bool("json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("model", completeModels)
	cmd.RunE = withKeyring(o, func(cmd *cobra.Command, ring *app.Keyring, args []string) (err error) {
		var ok bool
		if q.Tag.Key, q.Tag.Value, ok = strings.Cut(*tag, ":"); *tag != "" && (!ok || q.Tag.Key == "" || q.Tag.Value == "") {
			return fmt.Errorf("--tag: %q is not a tag; write one such as team:search", *tag)
		}
		if q.From, q.To, err = period(*from, *to, time.Now()); err != nil {
			return err
		}
		if q.Team != "" && q.Org == "" {
			return errors.New("--team needs its organisation; write --org too")
		}
		if len(args) > 0 {
			r, err := ring.Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			q.Key = r.ID
		}
		sums, err := ring.Usage(cmd.Context(), q)
		if err != nil {
			return err
		}
		names, err := keyNames(cmd.Context(), ring)
		if err != nil {
			return err
		}
		if *asJSON {
			return printUsageJSON(cmd.OutOrStdout(), q, sums, names)
		}
		return printUsage(cmd.OutOrStdout(), q, sums, names)
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

// keyNames returns the names of keys by their ids.
func keyNames(ctx context.Context, ring *app.Keyring) (map[string]string, error) {
	records, err := ring.List(ctx, "")
	names := make(map[string]string, len(records))
	for _, r := range records {
		names[r.ID] = r.Name
	}
	return names, err
}

// usageColumns are the columns of a group, in the order of the table.
var usageColumns = []struct {
	group, title string
	value        func(s *app.UsageSum, names map[string]string) string
}{
	{"hour", "HOUR", func(s *app.UsageSum, _ map[string]string) string { return s.Start.UTC().Format("2006-01-02 15:04") }},
	{"day", "DAY", func(s *app.UsageSum, _ map[string]string) string { return s.Start.UTC().Format(time.DateOnly) }},
	{"org", "ORG", func(s *app.UsageSum, _ map[string]string) string { return printable(s.Org) }},
	{"team", "TEAM", func(s *app.UsageSum, _ map[string]string) string {
		if s.Team == "" {
			return "-"
		}
		return printable(s.Org + "/" + s.Team)
	}},
	{"key", "KEY\tID", func(s *app.UsageSum, names map[string]string) string {
		return printable(names[s.Key]) + "\t" + printable(s.Key)
	}},
	{"model", "MODEL", func(s *app.UsageSum, _ map[string]string) string { return printable(s.Model) }},
	{"target", "TARGET", func(s *app.UsageSum, _ map[string]string) string { return printable(s.Target) }},
}

// printable returns a text from outside as one cell of a table.
func printable(text string) string { return dash(plain.Line(text)) }

func printUsage(w io.Writer, q app.UsageQuery, sums []app.UsageSum, names map[string]string) error {
	fmt.Fprintf(w, "%s to %s\n", timestamp(q.From), timestamp(q.To))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var titles []string
	for _, c := range usageColumns {
		if slices.Contains(q.GroupBy, c.group) {
			titles = append(titles, c.title)
		}
	}
	label := labelOf(q)
	if label != "" {
		titles = append(titles, strings.ToUpper(label))
	}
	fmt.Fprintln(tw, strings.Join(append(titles, "REQUESTS", "INPUT", "OUTPUT", "COST"), "\t"))
	unpriced := int64(0)
	for i := range sums {
		s := &sums[i]
		var cells []string
		for _, c := range usageColumns {
			if slices.Contains(q.GroupBy, c.group) {
				cells = append(cells, c.value(s, names))
			}
		}
		if label != "" {
			cells = append(cells, printable(s.Label))
		}
		cells = append(cells, number(s.Requests), number(s.Usage.TotalInput()), number(s.Usage.Output+s.Usage.Reasoning), s.Cost.String())
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
		unpriced += s.Unknown
	}
	if err := tw.Flush(); err != nil || unpriced == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "%s without a known price are not in the cost; write their prices into the configuration\n", count(int(unpriced), "request"))
	return err
}

// labelOf returns the label that usage is grouped by: user, tag:KEY or "".
func labelOf(q app.UsageQuery) string {
	for _, g := range q.GroupBy {
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
	Team       string    `json:"team,omitempty"`
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
}

func printUsageJSON(w io.Writer, q app.UsageQuery, sums []app.UsageSum, names map[string]string) error {
	rows := make([]usageRow, len(sums))
	byTime := slices.Contains(q.GroupBy, "hour") || slices.Contains(q.GroupBy, "day")
	for i, s := range sums {
		rows[i] = usageRow{Org: s.Org, Team: s.Team, Key: s.Key, KeyName: names[s.Key], Model: s.Model, Target: s.Target, Requests: s.Requests,
			Input: s.Usage.Input, CacheRead: s.Usage.CacheRead, CacheWrite: s.Usage.CacheWrite, Output: s.Usage.Output, Reasoning: s.Usage.Reasoning,
			Cost: s.Cost.Decimal(), Unpriced: s.Unknown, Estimated: s.Estimated, Errors: s.Errors, Refused: s.Refused}
		if labelOf(q) == "user" {
			rows[i].User = s.Label
		} else {
			rows[i].Tag = s.Label
		}
		if byTime {
			rows[i].Start = s.Start.UTC()
		}
	}
	return printJSON(w, struct {
		From time.Time  `json:"from"`
		To   time.Time  `json:"to"`
		Sums []usageRow `json:"sums"`
	}{q.From.UTC(), q.To.UTC(), rows})
}
