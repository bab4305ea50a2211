package observe

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

const page = "../../../docs/observability.md"

// section returns the part of the page below a heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("no section %q in %s", heading, page)
	}
	part, _, _ := strings.Cut(after, "\n## ")
	return part
}

// firstColumn returns the names in backquotes in the first column of a text's tables.
func firstColumn(text string) []string {
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// attributeNames reads the constants of the log line from their source.
func attributeNames(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "line.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "attr") {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
		return true
	})
	return names
}

func TestPageNamesTheAttributes(t *testing.T) {
	if got, want := firstColumn(section(t, "Read the log")), attributeNames(t); !slices.Equal(got, want) {
		t.Errorf("the page's table and the list of attributes differ, or their order does\npage %v\nlist %v", got, want)
	}
}

func TestPageNamesTheOutcomes(t *testing.T) {
	want := []string{string(OK), string(ClientError), string(UpstreamError), string(Cancelled), string(GatewayError)}
	if got := firstColumn(section(t, "Find who must act")); !slices.Equal(got, want) {
		t.Errorf("page %v, want %v", got, want)
	}
}

// TestAttributesAreInUse checks that some exchange logs every attribute of the list, and
// that no other attribute is logged.
func TestAttributesAreInUse(t *testing.T) {
	r := newReceiver(t)
	o, log := open(t, Options{Traces: exporters(t, r.URL).Traces})
	x := whole(o)
	x.Continued, x.Key, x.Recalled, x.Cost, x.Client, x.IgnoredTags = 1, "k", "hit", new(int64), "192.0.2.7", 1
	x.Failed(&llm.Error{Kind: llm.Upstream})
	x.Hedged("p", "first", &llm.Usage{Input: 1})
	x.End()
	x = begin(o)
	x.Err = &llm.Error{Kind: llm.Upstream, Code: "c", Message: "m", Cause: os.ErrDeadlineExceeded}
	x.End()
	seen := map[string]bool{}
	for _, l := range lines(t, log) {
		for name := range l {
			seen[name] = true
		}
	}
	want := append(attributeNames(t), "time", "level", "msg")
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// families exercises every metric and returns the families with their labels.
func families(t *testing.T) map[string][]string {
	t.Helper()
	o, _ := open(t, Options{})
	x := whole(o)
	x.Cost = new(int64(1))
	x.End()
	x = begin(o)
	x.Err = &llm.Error{Kind: llm.Permission}
	x.End()
	x = begin(o)
	x.Route("m", "p", x.Target)
	x.Err, x.Fidelity = &llm.Error{Kind: llm.Upstream}, "dropped;a=0;d=1"
	x.Hedged("p", "first", &llm.Usage{Input: 1})
	x.End()
	o.Watch(func() Live {
		return Live{Targets: []LiveTarget{{Target: "p/m", Prompt: 2, Cached: 1, RateLimits: []RateLimit{{"requests", 1, 2}}}}, Refused: map[string]uint64{"key": 1}}
	})
	o.WatchStores(func() Stores { return Stores{Ledger: &LedgerState{}, Workers: &WorkersState{}} })
	gathered, err := o.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, f := range gathered {
		if !strings.HasPrefix(f.GetName(), namespace+"_") {
			continue
		}
		labels := []string{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		all[f.GetName()] = labels
	}
	return all
}

func TestPageNamesTheMetrics(t *testing.T) {
	exist := families(t)
	text := section(t, "Watch the metrics")
	if got, want := firstColumn(text), slices.Sorted(maps.Keys(exist)); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("the page's table and the families differ\npage     %v\nfamilies %v", got, want)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [a-z]+ \\| ([^|]*) \\|").FindAllStringSubmatch(text, -1) {
		labels := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1)
		named := []string{}
		for _, l := range labels {
			named = append(named, l[1])
		}
		slices.Sort(named)
		if !slices.Equal(named, exist[row[1]]) {
			t.Errorf("%s: the page names the labels %v, it has %v", row[1], named, exist[row[1]])
		}
	}
}

// TestQueriesExist checks that the page's example queries, the alert rules and the
// dashboards use existing metrics and labels. Those of the consumer are checked in
// internal/ledger/usagelog/consume.
func TestQueriesExist(t *testing.T) {
	exist := families(t)
	boards, err := filepath.Glob("../../../deploy/grafana/*.json")
	if err != nil || len(boards) < 4 {
		t.Fatal(err, boards)
	}
	for _, name := range append(boards, page, "../../../deploy/prometheus/alerts.yaml", "../../../docs/operations/failures.md", "../../../docs/operations/runbook.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		used := regexp.MustCompile(`(isogloss_[a-z_]+)(\{[^}]*\})?`).FindAllStringSubmatch(strings.ReplaceAll(string(text), `\"`, `"`), -1)
		if len(used) < 2 {
			t.Fatalf("found %d uses of metrics in %s", len(used), name)
		}
		for _, u := range used {
			if strings.HasPrefix(u[1], "isogloss_consume_") {
				continue
			}
			checkUse(t, exist, name, u[1], u[2])
		}
	}
}

// checkUse checks a metric and the labels of its selector.
func checkUse(t *testing.T, exist map[string][]string, file, metric, selector string) {
	t.Helper()
	name := metric
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	labels, ok := exist[name]
	if !ok {
		t.Errorf("%s: %s does not exist", file, metric)
	}
	for _, l := range regexp.MustCompile(`([a-z_]+)(=|!=|=~|!~)"`).FindAllStringSubmatch(selector, -1) {
		if !slices.Contains(labels, l[1]) {
			t.Errorf("%s: %s has no label %s", file, name, l[1])
		}
	}
}
