package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
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

	oursStore         = "isogloss, store"
	oursStoreMessages = "isogloss, store, Messages on Chat"
	oursRedis         = "isogloss, store and Redis"
)

// arm is one way through one process: who asks whom in which dialect.
type arm struct {
	name, base     string
	proc           *process
	client         dialect
	prefix, suffix string
	// fresh starts the arm's process anew in front of an upstream; nil for a peer,
	// which is somebody else's to start.
	fresh func(ctx context.Context, upstream string) (*process, error)
}

func (a *arm) model(script string) string { return a.prefix + script + a.suffix }

// makeArms starts everything and lists the ways through it.
func (b *bench) makeArms() error {
	var err error
	addr := ""
	if len(b.o.peers) > 0 {
		addr = peerUpstream
	}
	if b.upstream, err = b.startUpstream(b.ctx, addr); err != nil {
		return err
	}
	b.keep(b.upstream)
	gateway := func(ctx context.Context, up string) (*process, error) { return b.startGateway(ctx, up, setting{}) }
	quiet := func(ctx context.Context, up string) (*process, error) {
		return b.startGateway(ctx, up, setting{quiet: true})
	}
	bare, err := b.shared(b.startBare)
	if err != nil {
		return err
	}
	gw, err := b.shared(gateway)
	if err != nil {
		return err
	}
	b.arms = []*arm{
		{name: direct, base: direct, proc: b.upstream, client: chatClient()},
		{name: bareChat, base: bareChat, proc: bare, client: chatClient(), fresh: b.startBare},
		{name: ours, base: bareChat, proc: gw, client: chatClient(), fresh: gateway},
		{name: oursMessages, base: bareChat, proc: gw, client: messagesClient(), fresh: gateway},
		{name: bareMessages, base: bareMessages, proc: bare, client: messagesClient(), suffix: "-a", fresh: b.startBare},
		{name: oursAnswers, base: bareMessages, proc: gw, client: responsesClient(), suffix: "-a", fresh: gateway},
	}
	if b.o.quick {
		return nil
	}
	warn, err := b.shared(quiet)
	if err != nil {
		return err
	}
	b.arms = append(b.arms,
		&arm{name: oursAlias, base: bareChat, proc: gw, client: chatClient(), prefix: "alias-", fresh: gateway},
		&arm{name: oursQuiet, base: bareChat, proc: warn, client: chatClient(), fresh: quiet})
	if err := b.addNginx(); err != nil {
		return err
	}
	return b.addPeers()
}

// shared starts a process in front of the common upstream that lives as long as the run.
func (b *bench) shared(f func(context.Context, string) (*process, error)) (*process, error) {
	p, err := f(b.ctx, b.upstream.addr)
	if err != nil {
		return nil, err
	}
	b.keep(p)
	return p, nil
}

func (b *bench) addNginx() error {
	p, err := b.shared(b.startNginx)
	if err == errNoNginx { //nolint:errorlint // it is never wrapped
		b.remark("nginx was left out: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	b.arms = append(b.arms, &arm{name: nginxArm, base: bareChat, proc: p, client: chatClient(), fresh: b.startNginx})
	return nil
}

// peerUpstream is where peers find the upstream, so that they can be set up before.
const peerUpstream = "127.0.0.1:7000"

// addPeers gives each peer the same three ways that our gateway has. A way that it
// does not answer is left out, with a remark.
func (b *bench) addPeers() error {
	for _, text := range b.o.peers {
		p, err := parsePeer(text)
		if err != nil {
			return err
		}
		for _, a := range []*arm{
			{name: p.name, base: bareChat, proc: p, client: chatClient()},
			{name: p.name + ", Messages on Chat", base: bareChat, proc: p, client: messagesClient()},
			{name: p.name + ", Responses on Messages", base: bareMessages, proc: p, client: responsesClient(), suffix: "-a"},
		} {
			if err := b.probe(a); err != nil {
				b.remark("%s was left out: %v", a.name, err)
				continue
			}
			b.arms = append(b.arms, a)
		}
	}
	return nil
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

// probe asks once for a whole answer and once for a stream.
func (b *bench) probe(a *arm) error {
	for _, j := range []job{b.whole(a, 2048, 1024), b.burst(a, 200)} {
		j.Conns, j.Warm, j.Total = 1, 1, 1
		s, err := b.drive(a, j)
		if err != nil {
			return err
		}
		if s.Failed > 0 {
			return fmt.Errorf("%s", s.Error)
		}
	}
	return nil
}

// the named arms that there are, in the given order; then all peers' arms if the list
// ends in "peers".
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
