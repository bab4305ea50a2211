package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// rig is what a group of checks works with.
type rig struct {
	options
	*testrig.Report
	up *testrig.Upstream
}

// alone runs checks with an upstream of their own.
func (r *rig) alone(ctx context.Context, run func(context.Context, *rig)) error {
	up, err := testrig.NewUpstream()
	if err != nil {
		return err
	}
	defer up.Close()
	own := *r
	own.up = up
	return testrig.Run(func() { run(ctx, &own) })
}

// gateway is a running gateway and a client of it.
type gateway struct {
	*testrig.Gateway
	client *testrig.Client
}

// with runs checks against a gateway with this configuration and stops it afterwards.
func (r *rig) with(ctx context.Context, c *config, run func(*gateway)) {
	g := testrig.Must(r.start(ctx, c))
	defer g.Close()
	run(g)
	testrig.NoError(g.Alive())
	r.up.CloseConnections()
	testrig.Must(g.stop(ctx))
}

func (r *rig) start(ctx context.Context, c *config) (*gateway, error) {
	g, err := testrig.NewGateway(r.bin, "", "gateway")
	if err != nil {
		return nil, err
	}
	g.Env, g.Before = append(g.Env, c.env...), c.before
	if err := errors.Join(g.Configure(c.yaml()), g.Start(ctx)); err != nil {
		g.Close()
		return nil, err
	}
	return &gateway{g, testrig.NewClient(g.URL)}, nil
}

func (g *gateway) stop(ctx context.Context) (time.Duration, error) {
	g.client.Close()
	return g.Stop(ctx)
}

// send sends a request and reads the response.
func (g *gateway) send(ctx context.Context, d testrig.Dialect, model string, stream bool) testrig.Response {
	return g.client.Send(ctx, d, testrig.Query{Model: model, Stream: stream})
}

// direct returns a client that sends to a target itself: what that takes is the
// machine's time and not the gateway's.
func (r *rig) direct(target string) *testrig.Client {
	return testrig.NewClient("http://" + r.up.Addr + "/" + target)
}

// config is a gateway's configuration.
type config struct {
	top       []string // lines of the top level
	providers []string
	models    []string
	env       []string // of the process
	before    string   // shell commands that the process runs before the binary
}

// provider adds a provider and returns its name.
func (c *config) provider(name string, d testrig.Dialect, url string, more ...string) string {
	parts := append([]string{"protocol: " + string(d), fmt.Sprintf("base_url: %q", url), "api_key: sk-chaos"}, more...)
	c.providers = append(c.providers, "  "+name+": { "+strings.Join(parts, ", ")+" }")
	return name
}

// family adds all models with a prefix, under the same names at the provider.
func (c *config) family(prefix, provider string) {
	c.models = append(c.models, fmt.Sprintf("  %q: { targets: [%q] }", prefix+"*", provider+"/"+prefix+"*"))
}

// model adds a model whose targets are the providers, in order.
func (c *config) model(name string, providers []string, more ...string) {
	parts := append([]string{"targets: [" + strings.Join(providers, "/up, ") + "/up]"}, more...)
	c.models = append(c.models, "  "+name+": { "+strings.Join(parts, ", ")+" }")
}

// target adds a target to the upstream and a model of the same name that leads to it.
func (r *rig) target(c *config, name string, d testrig.Dialect, script testrig.Script) *testrig.Target {
	c.model(name, []string{c.provider(name, d, r.up.URL(name, d))})
	return r.up.Handle(name, script)
}

func (c *config) yaml() string {
	lines := append(append([]string{}, c.top...), "providers:")
	lines = append(append(append(lines, c.providers...), "models:"), c.models...)
	return strings.Join(lines, "\n") + "\n"
}

// timeouts returns the setting that gives every phase of an attempt this time.
func timeouts(limit time.Duration) string {
	return fmt.Sprintf("timeouts: { connect: %[1]s, first_byte: %[1]s, first_token: %[1]s, idle: %[1]s, total: 10m }", limit)
}

// idleTimeout is like timeouts for the silence within an answer only.
func idleTimeout(limit time.Duration) string { return fmt.Sprintf("timeouts: { idle: %s }", limit) }

// pair is a client's dialect and an upstream's.
type pair struct{ client, upstream testrig.Dialect }

func (p pair) String() string { return string(p.client) + "→" + string(p.upstream) }

// pairs returns the 25 pairs of dialects. The short form has the five of one dialect and one
// translated pair for each client.
func pairs(short bool) (all []pair) {
	for i, c := range testrig.Dialects() {
		for j, u := range testrig.Dialects() {
			if !short || i == j || (i == 0 && u == testrig.Messages) || (i != 0 && u == testrig.Chat) {
				all = append(all, pair{c, u})
			}
		}
	}
	return all
}

// eventually waits for a condition and reports whether it was met.
func eventually(ctx context.Context, within time.Duration, met func() bool) bool {
	return testrig.Until(ctx, within, "", met) == nil
}

func took(s testrig.Sample) time.Duration  { return s.Took }
func first(s testrig.Sample) time.Duration { return s.First }
func bad(s testrig.Sample) bool            { return !s.Good() }

// inClass matches the samples of a class.
func inClass(class string) func(testrig.Sample) bool {
	return func(s testrig.Sample) bool { return s.Class == class }
}

// example describes the first of some samples that should not be there.
func example(samples []testrig.Sample, problem string) string {
	if len(samples) == 0 {
		return ""
	}
	s := samples[0]
	return fmt.Sprintf("%d %s; one has status %d after %s: %s", len(samples), problem, s.Status, testrig.Millis(s.Took), s.Body)
}
