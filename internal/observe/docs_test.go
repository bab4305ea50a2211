package observe

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

const page = "../../docs/observability.md"

// section returns the text of a part of the page, by its heading.
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

// firstColumn returns what the tables of a text name in backquotes first.
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
	if got := firstColumn(section(t, "Tell whose turn it is")); !slices.Equal(got, want) {
		t.Errorf("page %v, want %v", got, want)
	}
}

// Every attribute of the list is written by some exchange, and no other.
func TestAttributesAreInUse(t *testing.T) {
	r := newReceiver(t)
	o, log := open(t, Options{TraceEndpoint: r.URL})
	x := whole(o)
	x.Continued, x.Key, x.Recalled, x.Cost = 1, "k", "hit", new(int64)
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
	whole(o).End()
	x := begin(o)
	x.Route("m", "p")
	x.Err, x.Fidelity = &llm.Error{Kind: llm.Upstream}, "dropped;a=0;d=1"
	x.Hedged("p", "first", &llm.Usage{Input: 1})
	x.End()
	o.Watch(func() Live {
		return Live{Targets: []LiveTarget{{Target: "p/m", Prompt: 2, Cached: 1}}, Refused: map[string]uint64{"key": 1}}
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

// The example queries ask for what exists, by labels that exist.
func TestPageQueriesExist(t *testing.T) {
	exist := families(t)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	used := regexp.MustCompile(`(isogloss_[a-z_]+)(\{[^}]*\})?`).FindAllStringSubmatch(string(text), -1)
	if len(used) < 20 {
		t.Fatalf("found %d uses of metrics on the page", len(used))
	}
	for _, u := range used {
		name := u[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		labels, ok := exist[name]
		if !ok {
			t.Errorf("%s does not exist", u[1])
		}
		for _, l := range regexp.MustCompile(`([a-z_]+)(=|!=|=~|!~)"`).FindAllStringSubmatch(u[2], -1) {
			if !slices.Contains(labels, l[1]) {
				t.Errorf("%s has no label %s", name, l[1])
			}
		}
	}
}
