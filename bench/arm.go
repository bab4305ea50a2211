package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The names of the arms, as the tables show them.
const (
	direct       = "direct"
	bareChat     = "bare"
	bareMessages = "bare, Messages upstream"
	nginxArm     = "nginx"
	ours         = "isogloss"
	oursAlias    = "isogloss, model renamed"
	oursQuiet    = "isogloss, warnings logged only"
	oursMessages = "isogloss, Messages on Chat"
	oursAnswers  = "isogloss, Responses on Messages"

	// Both have the default of Go's collector.
	bareDefault = "bare, GOGC=100"
	oursDefault = "isogloss, GOGC=100"

	oursStore         = "isogloss, store"
	oursStoreMessages = "isogloss, store, Messages on Chat"
	oursRedis         = "isogloss, store and Redis"
	oursPostgres      = "isogloss, PostgreSQL"
	oursLog           = "isogloss, PostgreSQL and a log"
)

// arm is one path that is measured: a process, a client dialect and a set of models.
type arm struct {
	name, base     string
	proc           *process
	client         testrig.Dialect
	prefix, suffix string
	// fresh starts another process of the arm in front of an upstream. It is nil for a
	// peer, which the bench does not start.
	fresh func(ctx context.Context, upstream string) *process
}

func (a *arm) model(script string) string { return a.prefix + script + a.suffix }

// job returns a job for one model of the arm, without its amount.
func (a *arm) job(mode, script string, size int, stream bool) job {
	j := newJob(mode, a.client, a.model(script), size, stream)
	j.Addr, j.HTTP, j.Key = a.proc.addr, a.proc.http, a.proc.key
	return j
}

// makeArms starts the shared processes and lists the arms.
func (b *bench) makeArms() {
	addr := ""
	if len(b.o.peers) > 0 {
		addr = peerUpstream
	}
	b.upstream = b.startUpstream(b.ctx, addr)
	b.kept = append(b.kept, b.upstream)
	gateway := func(ctx context.Context, up string) *process { return b.startGateway(ctx, up, setting{}) }
	quiet := func(ctx context.Context, up string) *process { return b.startGateway(ctx, up, setting{quiet: true}) }
	bare, gw := b.shared(b.startBare), b.shared(gateway)
	b.arms = []*arm{
		{name: direct, base: direct, proc: b.upstream, client: testrig.Chat},
		{name: bareChat, base: bareChat, proc: bare, client: testrig.Chat, fresh: b.startBare},
		{name: ours, base: bareChat, proc: gw, client: testrig.Chat, fresh: gateway},
		{name: oursMessages, base: bareChat, proc: gw, client: testrig.Messages, fresh: gateway},
		{name: bareMessages, base: bareMessages, proc: bare, client: testrig.Messages, suffix: "-a", fresh: b.startBare},
		{name: oursAnswers, base: bareMessages, proc: gw, client: testrig.Responses, suffix: "-a", fresh: gateway},
	}
	if b.o.quick {
		return
	}
	collector := []string{"GOGC=100"}
	bareGC := func(ctx context.Context, up string) *process {
		return b.startBareWith(ctx, up, versions{h1, h1}, collector)
	}
	oursGC := func(ctx context.Context, up string) *process { return b.startGateway(ctx, up, setting{env: collector}) }
	b.arms = append(b.arms,
		&arm{name: bareDefault, base: bareDefault, proc: b.shared(bareGC), client: testrig.Chat, fresh: bareGC},
		&arm{name: oursDefault, base: bareDefault, proc: b.shared(oursGC), client: testrig.Chat, fresh: oursGC},
		&arm{name: oursAlias, base: bareChat, proc: gw, client: testrig.Chat, prefix: "alias-", fresh: gateway},
		&arm{name: oursQuiet, base: bareChat, proc: b.shared(quiet), client: testrig.Chat, fresh: quiet})
	if b.installed("nginx") {
		b.arms = append(b.arms, &arm{name: nginxArm, base: bareChat, proc: b.shared(b.startNginx), client: testrig.Chat, fresh: b.startNginx})
	}
	b.addPeers()
}

// installed reports whether a program is there. If it is not, the tables lack its rows.
func (b *bench) installed(program string) bool {
	_, err := exec.LookPath(program)
	if err != nil {
		b.remark("%s was left out: %v; bench/setup.sh installs it", program, err)
	}
	return err == nil
}

// shared starts a process in front of the common upstream and keeps it until release.
func (b *bench) shared(start func(context.Context, string) *process) *process {
	p := start(b.ctx, b.upstream.addr)
	b.kept = append(b.kept, p)
	return p
}

// peerUpstream is the address of the upstream that peers are configured with.
const peerUpstream = "127.0.0.1:7000"

// addPeers adds the three arms of each peer. An arm that does not answer is left out,
// with a remark.
func (b *bench) addPeers() {
	for _, text := range b.o.peers {
		p := testrig.Must(parsePeer(text))
		for _, a := range []*arm{
			{name: p.name, base: bareChat, proc: p, client: testrig.Chat},
			{name: p.name + ", Messages on Chat", base: bareChat, proc: p, client: testrig.Messages},
			{name: p.name + ", Responses on Messages", base: bareMessages, proc: p, client: testrig.Responses, suffix: "-a"},
		} {
			if err := b.probe(a); err != nil {
				b.remark("%s was left out: %v", a.name, err)
				continue
			}
			b.arms = append(b.arms, a)
		}
	}
}

// parsePeer reads NAME=URL,PID.
func parsePeer(s string) (*process, error) {
	name, rest, _ := strings.Cut(s, "=")
	address, id, _ := strings.Cut(rest, ",")
	u, err := url.Parse(address)
	if name == "" || err != nil || u.Host == "" {
		return nil, fmt.Errorf("--peer %q: write NAME=URL,PID, for example litellm=http://127.0.0.1:4000,1234", s)
	}
	pid, err := strconv.Atoi(id)
	if err != nil {
		return nil, fmt.Errorf("--peer %q: %q is not a process id", s, id)
	}
	return &process{name: name, addr: u.Host, pid: pid}, nil
}

// probe sends one non-streaming and one streaming request.
func (b *bench) probe(a *arm) error {
	return testrig.Run(func() {
		for _, j := range []job{b.whole(a, 2048, 1024), b.burst(a, 200)} {
			j.Conns, j.Warm, j.Total = 1, 1, 1
			if s := b.drive(a, j); s.Failed > 0 {
				testrig.NoError(errors.New(s.Error))
			}
		}
	})
}

// choose returns the named arms in order; the name "peers" stands for all arms of peers.
func (b *bench) choose(names ...string) []*arm {
	var chosen []*arm
	for _, n := range names {
		for _, a := range b.arms {
			if a.name == n || n == "peers" && a.fresh == nil && a.name != direct {
				chosen = append(chosen, a)
			}
		}
	}
	return chosen
}
