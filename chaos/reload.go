package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	reloadTime    = time.Second // in turns, until the last valid version of the configuration is in use
	reloadClients = 50
	reloadRate    = 500 // requests a second, all clients together
)

// runReload plays r16: the configuration file changes all the time, often to something
// invalid, while requests come in. No request fails, every invalid version is rejected,
// and the last valid version is in use soon.
func runReload(ctx context.Context, r *rig) {
	const name = "r16/reload"
	if !r.Wants(name) {
		return
	}
	began, cpu := time.Now(), testrig.ReadCPUTime()
	changes, invalid := 1000, 100
	if r.short {
		changes, invalid = 100, 10
	}
	r.up.Handle("up", testrig.Answer("good"))
	// With this the resident memory follows the live heap, also below 64 MiB.
	g := testrig.Must(testrig.StartGateway(ctx, r.bin, validVersion(r.up, 0), "GOGC=100"))
	defer g.Close()
	l := &reloads{Gateway: g, up: r.up}
	loading, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range reloadClients {
		wg.Go(func() {
			c := testrig.NewClient(g.URL)
			defer c.Close()
			for loading.Err() == nil {
				next := time.Now().Add(reloadClients * time.Second / reloadRate)
				l.answers.add(complete(testrig.Chat, c.Send(ctx, testrig.Chat, testrig.Query{Model: "fast"}), false, testrig.Text("good")))
				testrig.Pause(loading, time.Until(next))
			}
		})
	}
	problems, goals, measured, err := l.change(ctx, changes, invalid)
	stop()
	wg.Wait()
	testrig.NoError(err)
	r.Figures(name, fmt.Sprintf("%d changes (%d invalid): %s; %d answers, %d failed", changes, invalid, measured, l.answers.good.Load(), l.answers.failed.Load()), began, cpu, goals,
		append(append(problems, l.answers.problems()...), testrig.When(strings.Contains(g.Log(), "panic"), "the gateway panicked: %s", g.LogTail()),
			testrig.Unless(l.answers.good.Load() >= int64(changes), "there was hardly any load"))...)
	testrig.Must(g.Stop(ctx))
}

// validVersion returns a configuration that names its number by a model.
func validVersion(u *testrig.Upstream, n int) string {
	return fmt.Sprintf("providers:\n  up: { protocol: openai-chat, base_url: %q }\nmodels:\n  fast: { targets: [up/m%d] }\n  only-%[2]d: { targets: [up/m%[2]d] }\nlog: { level: warn }\n", u.URL("up", testrig.Chat), n)
}

// version is a configuration with a name for messages.
type version struct{ name, text string }

// invalidVersions are broken configurations that real programs have written.
func invalidVersions(u *testrig.Upstream) []version {
	text := validVersion(u, 0)
	return []version{
		{"an empty file", ""},
		{"a blank address", strings.Replace(text, fmt.Sprintf("%q", u.URL("up", testrig.Chat)), `""`, 1)},
		{"a blank list", strings.Replace(text, "targets: [up/m0]", "targets:", 1)},
		{"ten times the text", strings.Repeat(text, 10)},
		{"a name twice", strings.Replace(text, "  only-0", "  fast: { targets: [up/other] }\n  only-0", 1)},
		{"truncated YAML", upTo(text, "]")},
		{"zero bytes", "\x00\x00\x00\x00"},
	}
}

// upTo returns the part of a text before a mark.
func upTo(text, mark string) string {
	before, _, _ := strings.Cut(text, mark)
	return before
}

// reloads is a gateway whose configuration changes.
type reloads struct {
	*testrig.Gateway
	up      *testrig.Upstream
	answers tally
}

// reloadInterval is the time between changes that nothing waits for. The gateway looks at the
// file less often, so it does not see all of them.
const reloadInterval = 30 * time.Millisecond

// change writes all versions. An invalid one stays until the gateway has rejected it, and
// the valid one after it until it is in use. At last each kind of invalid version is written
// once more, over the last valid one.
func (l *reloads) change(ctx context.Context, changes, invalid int) (problems, goals []string, measured string, err error) {
	bad := invalidVersions(l.up)
	var memory, files [2]float64
	tick := time.NewTicker(reloadInterval)
	defer tick.Stop()
	wait := false // for the next valid version
	for n := 1; n <= changes; n++ {
		// The invalid ones are spread evenly from the first on, so that the last is valid.
		if k := (n - 1) * invalid / changes; n == 1 || k != (n-2)*invalid/changes {
			v := bad[k%len(bad)]
			if err := l.rejects(ctx, n, v); err != nil {
				return nil, nil, "", fmt.Errorf("version %d: %w", n, err)
			}
			wait = true
			continue
		}
		if err := l.write(n, validVersion(l.up, n)); err != nil {
			return nil, nil, "", err
		}
		if wait {
			if err := testrig.Until(ctx, settleTime, fmt.Sprintf("version %d is not used", n), func() bool { return l.inUse(ctx, n) }); err != nil {
				return nil, nil, "", err
			}
			wait = false
		}
		if files[0] == 0 && n >= changes/10 && l.answers.good.Load() >= 4*reloadClients { // the connections are open by then
			memory[0], files[0] = testrig.ProcessMemory(l.PID(), "VmRSS"), float64(testrig.OpenFiles(l.PID()))
		}
		<-tick.C
	}
	written := time.Now().Add(-reloadInterval) // the last change was made one tick ago
	_, soon := l.Within(ctx, reloadTime, func() bool { return l.inUse(ctx, changes) })
	settled := time.Since(written)
	if err := testrig.Until(ctx, settleTime, "the last version is not used", func() bool { return l.inUse(ctx, changes) }); err != nil {
		return nil, nil, "", err
	}
	memory[1], files[1] = testrig.ProcessMemory(l.PID(), "VmRSS"), float64(testrig.OpenFiles(l.PID()))
	rejected := int(l.count(ctx, "error"))
	measured = fmt.Sprintf("%.0f loaded, %d rejected, the last in use after %s; memory %.0f to %.0f KiB, descriptors %.0f to %.0f",
		l.count(ctx, "ok"), rejected, settled.Round(time.Millisecond), memory[0]/1024, memory[1]/1024, files[0], files[1])
	problems = []string{
		testrig.Unless(soon, "the last version was in use only after the gateway had answered %v's worth of other requests, %s after the change", reloadTime, settled),
		testrig.Unless(rejected >= invalid, "%d versions were rejected, and %d are invalid", rejected, invalid),
		testrig.When(memory[1] > memory[0]+32<<20 || files[1] > files[0]+50, "the gateway grows"),
	}
	for i, v := range bad {
		if err := l.rejects(ctx, i, v); err != nil {
			return nil, nil, "", err
		}
		problems = append(problems, testrig.Unless(l.inUse(ctx, changes), "%s was rejected, but the version before it is not in use", v.name))
	}
	return problems, []string{testrig.When(settled > reloadTime, "the last version was in use after %s, want at most %v", settled, reloadTime)}, measured, ctx.Err()
}

// rejects writes an invalid version and waits until the gateway has counted its rejection.
func (l *reloads) rejects(ctx context.Context, n int, v version) error {
	before := l.count(ctx, "error")
	if err := l.write(n, v.text); err != nil {
		return err
	}
	return testrig.Until(ctx, settleTime, v.name+" is not rejected", func() bool { return l.count(ctx, "error") > before })
}

// inUse reports whether the gateway serves version n.
func (l *reloads) inUse(ctx context.Context, n int) bool {
	return strings.Contains(testrig.Page(ctx, l.URL+"/v1/models"), fmt.Sprintf(`"id":"only-%d"`, n))
}

// count returns how many reloads had a result.
func (l *reloads) count(ctx context.Context, result string) float64 {
	return testrig.Number(l.Metrics(ctx), `isogloss_config_reloads_total{result="`+result+`"} `)
}

// write puts a version in place in one of the two ways of editors: it overwrites the
// file or renames a new one.
func (l *reloads) write(n int, text string) error {
	if text != "" {
		text = l.Header() + text
	}
	if n%2 == 0 {
		return os.WriteFile(l.Config, []byte(text), 0o600)
	}
	next := l.Config + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, l.Config)
}
