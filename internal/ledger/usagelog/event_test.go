package usagelog

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// fill sets every field of a value to something that is not zero, so that a new field of a row that the
// event does not carry fails the test.
func fill(v reflect.Value, r *rand.Rand) {
	switch v.Kind() { //nolint:exhaustive // a row has no others
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1_790_000_000+r.Int64N(1e6), r.Int64N(1e9)).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), r)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), r)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), r)
		}
	case reflect.String:
		v.SetString("text \"é\u2028<&> " + strconv.Itoa(r.IntN(1000)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1 + r.Int64N(1<<40))
	default:
		panic("a row has a field of kind " + v.Kind().String())
	}
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var row usage.Row
		fill(reflect.ValueOf(&row).Elem(), r)
		row.Told = usage.BoundTold(row.Told) // as the recorder does
		checkRound(t, row)
	}
	checkRound(t, usage.Row{ID: "least", Began: time.Unix(1_790_000_000, 0).UTC(), Outcome: usage.Refused, Cost: new(usage.Money)})
	checkRound(t, usage.Row{ID: "unknown cost", Began: time.Unix(1_790_000_000, 1).UTC(), Outcome: usage.Answered})
}

func checkRound(t *testing.T, row usage.Row) {
	t.Helper()
	e := EventOf("node-1", 7, &row)
	line, err := encodeEvent(&e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeEvent(line)
	if err != nil {
		t.Fatal(err)
	}
	if got := back.Row(); !reflect.DeepEqual(got, row) || back.Position != 7 || back.Log != "node-1" {
		t.Errorf("the row is\n%+v, want\n%+v\nby %s", got, row, line)
	}
}

// sample is a request with one failed attempt.
func sample() usage.Row {
	began := time.Date(2026, 11, 18, 2, 3, 4, 567_890_123, time.UTC)
	return usage.Row{ID: "5d0f3c1e-1111-4222-8333-444455556666", Node: "gw-1", Key: "k1", Team: "search", Org: "acme", Began: began, Took: 2 * time.Second,
		Endpoint: "chat_completions", Dialect: "openai-chat", Model: "fast", Target: "openai/gpt-5", Stream: true, Status: 200, Outcome: usage.Answered,
		Usage: llm.Usage{Input: 100, CacheRead: 20, CacheWrite: 30, Output: 40, Reasoning: 50}, Cost: new(usage.Money(1_234_567)),
		Fidelity: "dropped", Losses: []usage.Loss{{Code: "seed_dropped", Path: "seed"}}, Queue: time.Millisecond, FirstByte: 3 * time.Millisecond, FirstToken: 4 * time.Millisecond,
		Client: usage.Client{Agent: "sdk/1", Trace: "0af7651916cd43dd8448eb211c80319c"}, Labels: usage.Labels{User: "u", Tags: []usage.Tag{{Key: "feature", Value: "chat"}}},
		Attempts: []usage.Attempt{
			{Target: "local/gpt", Began: began, Took: time.Millisecond, Status: 503, Fault: "overloaded", Cost: new(usage.Money)},
			{Target: "openai/gpt-5", Began: began.Add(time.Millisecond), Took: time.Second, Status: 200, Usage: llm.Usage{Input: 100, CacheRead: 20, CacheWrite: 30, Output: 40, Reasoning: 50},
				Cost: new(usage.Money(1_234_567)), Charged: true, Times: usage.Times{Connect: 5, FirstByte: 6, FirstToken: 7}, Rates: usage.Rates{Input: 2_500_000_000, Output: 10_000_000_000}},
		}}
}

// TestGolden holds the form of version 1: readers of others depend on it.
func TestGolden(t *testing.T) {
	row := sample()
	e := EventOf("gw-1-17-1790000000", 42, &row)
	line, err := encodeEvent(&e)
	if err != nil {
		t.Fatal(err)
	}
	const path = "testdata/event.json"
	if *update {
		if err := os.WriteFile(path, line, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(line) != string(want) {
		t.Errorf("the event is\n%swant\n%s", line, want)
	}
	page, err := os.ReadFile("../../../docs/usage-events.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), string(want)) {
		t.Error("docs/usage-events.md does not have the event of testdata/event.json as its example")
	}
}

func TestPageHasEveryField(t *testing.T) {
	page, err := os.ReadFile("../../../docs/usage-events.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				n++
				if !strings.Contains(string(page), "`"+name+"`") {
					t.Errorf("docs/usage-events.md does not describe %s", name)
				}
			}
			inner := f.Type
			if inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() {
				walk(inner)
			}
		}
	}
	walk(reflect.TypeFor[Event]())
	if n < 50 {
		t.Errorf("the test has found %d fields only", n)
	}
}

// TestEvolution checks the rule: unknown fields are ignored, a newer version is refused.
func TestEvolution(t *testing.T) {
	e, err := DecodeEvent([]byte(`{"v":1,"id":"a","position":1,"time":"2026-11-18T00:00:00Z","new":{"x":[1]},"cost_nano_usd":5}`))
	if err != nil || *e.Cost != 5 {
		t.Errorf("an event with an unknown field is %+v, %v", e, err)
	}
	if _, err := DecodeEvent([]byte(`{"v":2,"id":"a","position":1}`)); !errors.Is(err, ErrVersion) {
		t.Errorf("version 2 gives %v", err)
	}
	for _, line := range []string{`{}`, `{"v":1,"position":1}`, `{"v":1,"id":"a"}`, `nonsense`, ``} {
		if _, err := DecodeEvent([]byte(line)); err == nil || errors.Is(err, ErrVersion) {
			t.Errorf("%q gives %v", line, err)
		}
	}
}

// TestUnprintable checks that no row fails to be encoded: it would block all later ones.
func TestUnprintable(t *testing.T) {
	for _, row := range []usage.Row{{ID: "\xff\x00"}, {ID: "a", Began: time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC), Attempts: []usage.Attempt{{}}}} {
		e := EventOf("l", 1, &row)
		line, err := encodeEvent(&e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeEvent(line); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestNames(t *testing.T) {
	n := Name{Log: "gw-1-17-99", Partition: 3, After: 5, To: 9}
	if back, err := ParseName(n.String()); err != nil || back != n {
		t.Errorf("%v, %v", back, err)
	}
	for _, text := range []string{"", "a", "a/1/2", "/1/2/3", "a/1/3/2", "a/-1/0/1", "a/256/0/1", "a/1/-1/2", "a/1/2/3/4", "a/1/2/x"} {
		if n, err := ParseName(text); err == nil {
			t.Errorf("%q is parsed as %v", text, n)
		}
	}
}

// TestPartitions checks that an organisation has one partition in a log and at most eight in all, and that
// organisations use all partitions.
func TestPartitions(t *testing.T) {
	used, all := map[int]bool{}, map[int]bool{}
	for i := range 1000 {
		used[partitionOf("acme", "log-"+strconv.Itoa(i), 32)] = true
		all[partitionOf("org-"+strconv.Itoa(i), "log", 32)] = true
	}
	if len(used) != spread || len(all) != 32 {
		t.Errorf("one organisation has %d partitions, all have %d", len(used), len(all))
	}
	// The rule is a part of the format: a node of the next release sends the rest of an old log.
	if got := []int{partitionOf("acme", "gw-1", 12), partitionOf("", "gw-1", 12), partitionOf("acme", "gw-2", 12)}; !reflect.DeepEqual(got, []int{0, 6, 11}) {
		t.Errorf("the partitions are %v", got)
	}
}
