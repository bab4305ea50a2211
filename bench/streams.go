package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/plot"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// streamsRun is a run of the gateway with many open streams: half of them last as long as the run, the others a
// quarter of it, one after the other. The clients have keys with budgets, and the ledger is in SQLite. In its
// second minute the gateway reads a changed configuration, and then a new process takes over.
type streamsRun struct {
	When    time.Time `json:"when"`
	Commit  string    `json:"commit"`
	Machine machine   `json:"machine"`
	Command string    `json:"command"`
	HTTP    string    `json:"http"`
	Streams int       `json:"streams"`
	Minutes float64   `json:"minutes"`

	Ours     result  `json:"ours"`
	Direct   result  `json:"direct"` // streams that go to the upstream, beside the others
	Ledger   string  `json:"ledger"` // "" if it has a row of each stream
	Load     string  `json:"load"`   // of the machine
	Reloaded float64 `json:"reloaded_seconds"`
	Replaced float64 `json:"replaced_seconds"`
	Points   []point `json:"points"`
}

// point is what was seen at a time of the run.
type point struct {
	Seconds float64 `json:"seconds"`
	Open    int     `json:"open"`
	RSS     float64 `json:"rss_mib"` // of all processes of the gateway
	P99     float64 `json:"p99"`     // ms, of the events since the point before
	Direct  float64 `json:"direct_p99"`
}

const (
	streamEvery  = 5 * time.Second // between the events of a stream
	streamKeys   = 20
	directShare  = 25 // one direct stream for so many
	reloadShare  = 8  // the part of the run after which the configuration changes
	restartShare = 5
)

// streamsGateway is the configuration of the run. The second is read while streams are open.
func (b *bench) streamsGateway(v versions, up string, open int, names []string) (first, second string) {
	tls, scheme := (&setting{http: v}).tls(b.dir)
	var w strings.Builder
	fmt.Fprintf(&w, "%sshutdown: { drain: 1h }\noverload: { requests: %d }\nlog: { level: warn }\nstore: { url: sqlite }\nprices:\n  models:\n    \"chat/*\": { input: 0.15, output: 0.60 }\n", tls, 2*open)
	fmt.Fprintf(&w, "providers:\n  chat: { protocol: openai-chat, base_url: \"%s://%s/v1\", api_key: k }\nmodels:\n", scheme, up)
	for _, name := range names {
		fmt.Fprintf(&w, "  %[1]s: { targets: [chat/%[1]s] }\n", name)
	}
	return w.String(), w.String() + "  added: { targets: [chat/" + names[0] + "] }\n"
}

// streams makes the run.
func (b *bench) streams(v versions, open int, length time.Duration) *streamsRun {
	r := &streamsRun{When: b.report.When, Commit: b.report.Commit, Machine: b.report.Machine, HTTP: v.String(), Streams: open, Minutes: length.Minutes(),
		Command: fmt.Sprintf("make streams STREAMS=%d HTTP=%s", open, v)}
	up := b.startUpstreamWith(b.ctx, "", v.up)
	defer up.stop()
	lives := []life{newLife(length), newLife(length / 4)}
	g := testrig.Must(testrig.NewGateway(b.bin, b.dir, "gateway"))
	defer g.Close()
	_, address, _ := strings.Cut(g.URL, "://")
	g.URL, g.TLS, g.Env = scheme(v.client)+"://"+address, trusting(), b.trust(append(g.Env, "ISOGLOSS_DATA="+g.Data))
	first, second := b.streamsGateway(v, up.addr, open, []string{lives[0].model(), lives[1].model()})
	testrig.NoError(g.Configure(first))
	testrig.NoError(g.Start(b.ctx))
	var keys []string
	for range streamKeys {
		keys = append(keys, testrig.Must(b.makeKey(b.ctx, g.Config)))
	}

	cpu := testrig.ReadCPUTime()
	j := job{Mode: "streams", Addr: address, HTTP: v.client, Path: testrig.Chat.Path("", true), Stream: true, End: testrig.Chat.LastEvent(),
		Open: open, Keys: keys, Lives: lives, Seconds: length.Seconds()}
	ours := b.follow(j)
	j.Addr, j.HTTP, j.Open, j.Keys = up.addr, v.up, max(1, open/directShare), nil
	direct := b.follow(j)
	b.say("  %d streams open over %s, for %v", open, v, length)
	b.watch(r, g, ours, direct, length, second)
	r.Load = cpu.Load()
	if r.Ours.Failed > 0 {
		b.say("the log of the gateway ends with: %s", g.LogTail())
	}
	r.Ledger = b.settled(g, r.Ours.Asked)
	testrig.Must(g.Stop(b.ctx))
	return r
}

// newLife returns the life of streams with events for a time.
func newLife(lasts time.Duration) life {
	l := life{Events: max(1, int(lasts/streamEvery))}
	l.Body = newJob("", testrig.Chat, l.model(), 2048, true).Body
	return l
}

func (l life) model() string { return fmt.Sprintf("timed-%d-%d", l.Events, streamEvery.Milliseconds()) }

// follow starts a load and returns its results.
func (b *bench) follow(j job) <-chan result {
	results := make(chan result, 1000)
	s := b.startLoad(j)
	s.next()
	s.proceed()
	go func() {
		defer close(results)
		defer s.close()
		for {
			var r result
			if err := testrig.Run(func() { r = s.next() }); err != nil {
				r = result{Failed: 1, Error: err.Error(), Done: true}
			}
			if results <- r; r.Done {
				return
			}
		}
	}()
	return results
}

// watch notes a point whenever the load tells one, and changes the gateway in between.
func (b *bench) watch(r *streamsRun, g *testrig.Gateway, ours, direct <-chan result, length time.Duration, second string) {
	began, processes, other := time.Now(), []int{g.PID()}, result{}
	steps := []struct {
		at   time.Duration
		do   func()
		took *float64
	}{
		{length / reloadShare, func() { b.reload(g, second) }, &r.Reloaded},
		{length / restartShare, func() { processes = append(processes, b.restart(g)) }, &r.Replaced},
	}
	for one := range ours {
		for range len(direct) {
			other = <-direct
		}
		p := point{Seconds: one.Seconds, Open: one.Open, P99: one.P99, Direct: other.P99}
		for _, pid := range processes {
			p.RSS += testrig.ProcessMemory(pid, "VmRSS") / (1 << 20)
		}
		if one.Done {
			r.Ours = one
			break
		}
		r.Points = append(r.Points, p)
		b.say("  %4.0f s: %d open, %d failed, %.0f MiB in %d processes, p99 %.1f ms, direct %.1f %s", p.Seconds, p.Open, one.Failed, p.RSS,
			len(slices.DeleteFunc(slices.Clone(processes), func(pid int) bool { return !testrig.ProcessAlive(pid) })), p.P99, p.Direct, one.Error)
		if len(steps) > 0 && time.Since(began) > steps[0].at {
			at := time.Now()
			steps[0].do()
			*steps[0].took = time.Since(at).Seconds()
			steps = steps[1:]
		}
	}
	for !other.Done {
		other = <-direct
	}
	r.Direct = other
}

// reload writes another configuration and waits until it is in use.
func (b *bench) reload(g *testrig.Gateway, text string) {
	testrig.NoError(g.Configure(text))
	testrig.NoError(testrig.Until(b.ctx, patience, "the new configuration is not in use", func() bool {
		return testrig.Number(g.Metrics(b.ctx), `isogloss_config_reloads_total{result="ok"} `) > 0
	}))
}

// restart replaces the process and returns the new one.
func (b *bench) restart(g *testrig.Gateway) int {
	old := g.PID()
	testrig.NoError(g.Signal(syscall.SIGHUP))
	testrig.NoError(testrig.Until(b.ctx, patience, "there is no new process", func() bool { return g.PID() != 0 && g.PID() != old }))
	return g.PID()
}

// settled returns what is wrong with the rows of the ledger.
func (b *bench) settled(g *testrig.Gateway, streams int) string {
	l, err := (&storage{data: g.Data}).openLedger()
	if err != nil {
		return err.Error()
	}
	defer l.db.Close()
	l.owe(streams)
	if err := l.settle(b.ctx); err != nil {
		return err.Error()
	}
	return ""
}

// problems are what the run has not held. Latency counts on a machine that has CPU time left.
func (r *streamsRun) problems() (all []string) {
	add := func(bad bool, format string, args ...any) {
		if bad {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(r.Ours.Failed > 0, "%d streams failed, the first: %s", r.Ours.Failed, r.Ours.Error)
	add(r.Direct.Failed > 0, "%d direct streams failed: %s", r.Direct.Failed, r.Direct.Error)
	add(r.Ledger != "", "%s", r.Ledger)
	add(r.Reloaded == 0 || r.Replaced == 0, "the configuration and the process were not replaced")
	return all
}

// addedGoal is the most that the gateway may add to the delay of an event, in ms.
const addedGoal = 20

func (r *streamsRun) added() float64 { return r.Ours.P99 - r.Direct.P99 }

// text is the page of the run.
func (r *streamsRun) text(picture string) []byte {
	var w bytes.Buffer
	origin := testrig.Origin{When: r.When, Commit: r.Commit, Machine: r.Machine.String(), Command: r.Command}
	fmt.Fprintf(&w, "# %s open streams, %s\n\n<!-- Written by the command below; do not edit. -->\n\n%s\n", thousands(float64(r.Streams)), r.HTTP, origin.Line())
	fmt.Fprintf(&w, "One process of the gateway with %d keys that have budgets, and SQLite. Each stream has an event every %v. Half of the streams last %g minutes, the others a quarter of that, one after the other. After an eighth of the time the configuration changes, after a fifth SIGHUP starts a new process, which takes the new connections; the old one ends with its last stream.\n\n",
		streamKeys, streamEvery, r.Minutes)
	low, high := r.flat()
	held := func(ok bool) string {
		if ok {
			return "yes"
		}
		return "**no**"
	}
	problems := r.problems()
	markdown(&w, [][]string{
		{"figure", "goal", "measured", "held"},
		{"streams that failed or were cut", "0", fmt.Sprintf("%d of %s", r.Ours.Failed, thousands(float64(r.Ours.Asked))), held(r.Ours.Failed == 0)},
		{"events", "–", thousands(float64(r.Ours.Events)), "–"},
		{"rows of the ledger", "one for each stream", ledgerText(r.Ledger), held(r.Ledger == "")},
		{"delay of an event, p99, added to direct streams", fmt.Sprintf("≤ %d ms", addedGoal), fmt.Sprintf("%s ms (%s, direct %s; p50 %s, direct %s)", short(r.added()), short(r.Ours.P99), short(r.Direct.P99), short(r.Ours.P50), short(r.Direct.P50)), held(r.added() <= addedGoal)},
		{"resident memory in the last half", "flat", fmt.Sprintf("%s to %s MiB", short(low), short(high)), "–"},
		{"configuration replaced in", "–", short(r.Reloaded) + " s", "–"},
		{"process replaced in", "–", short(r.Replaced) + " s", "–"},
		{"the machine", "–", r.Load, "–"},
	})
	for _, p := range problems {
		fmt.Fprintf(&w, "- %s\n", p)
	}
	fmt.Fprintf(&w, "![Resident memory and open streams over time](%s)\n", picture)
	return w.Bytes()
}

func ledgerText(problem string) string {
	if problem == "" {
		return "all"
	}
	return problem
}

// flat returns the lowest and highest memory in the last half of the run while all streams were open.
func (r *streamsRun) flat() (low, high float64) {
	for _, p := range r.Points[len(r.Points)/2:] {
		if p.Open < r.Streams*9/10 {
			continue
		}
		if low == 0 || p.RSS < low {
			low = p.RSS
		}
		high = max(high, p.RSS)
	}
	return low, high
}

// picture draws memory and streams over time.
func (r *streamsRun) picture() []byte {
	p := plot.Plot{Title: fmt.Sprintf("%s open streams, %s", thousands(float64(r.Streams)), r.HTTP), XLabel: "seconds", YLabel: "MiB, hundreds of streams", Lines: []plot.Line{{Name: "memory, MiB"}, {Name: "open streams, ÷ 100"}}}
	for x := 0.0; x <= r.Minutes*60; x += 60 {
		p.Ticks = append(p.Ticks, x)
	}
	for _, q := range r.Points {
		p.Lines[0].Points = append(p.Lines[0].Points, plot.Point{X: q.Seconds, Y: q.RSS})
		p.Lines[1].Points = append(p.Lines[1].Points, plot.Point{X: q.Seconds, Y: float64(q.Open) / 100})
	}
	return p.SVG()
}

// writeTo writes the page, its picture and its figures.
func (r *streamsRun) writeTo(dir string) error {
	dir = filepath.Join(dir, "performance")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a folder for everyone
		return err
	}
	name := "streams-" + strings.ReplaceAll(r.HTTP, "/", "-")
	figures, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	for ending, text := range map[string][]byte{".md": r.text(name + ".svg"), ".svg": r.picture(), ".json": append(figures, '\n')} {
		if err := os.WriteFile(filepath.Join(dir, name+ending), text, 0o644); err != nil { //nolint:gosec // for everyone
			return err
		}
	}
	return nil
}

// runStreams makes the run of --streams.
func (o *options) runStreams(ctx context.Context, out, progress io.Writer) error {
	v, err := parseVersions(o.http)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o, progress)
	if err != nil {
		return err
	}
	defer b.close()
	var r *streamsRun
	if err := testrig.Run(func() { r = b.streams(v, o.streams, time.Duration(o.minutes*float64(time.Minute))) }); err != nil {
		return err
	}
	if _, err := out.Write(r.text("")); err != nil {
		return err
	}
	if o.page != "" {
		if err := r.writeTo(o.page); err != nil {
			return err
		}
	}
	if problems := r.problems(); len(problems) > 0 {
		return fmt.Errorf("%s", strings.Join(problems, "; "))
	}
	return nil
}
