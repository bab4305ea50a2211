package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// scripts are the models that every table has.
var scripts = []string{"whole-1024", "whole-102400", "burst-1", "burst-10", "burst-20", "burst-50", "burst-200", "burst-1000", "paced-20", "paced-5000"}

// setting is how a gateway is configured beyond its providers.
type setting struct {
	quiet  bool // only warnings are logged
	models int  // a table of so many models in place of the scripts
	store  *storage
	env    []string
}

// gatewayConfig is what a user would write: two providers, names for their models.
// The names with alias- in front are served under another name upstream.
func gatewayConfig(listen, admin, upstream string, s setting) []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "listen: %s\nadmin: { listen: %q }\n", listen, admin)
	if s.quiet {
		fmt.Fprintln(&w, "log: { level: warn }")
	}
	if s.store != nil {
		w.WriteString(s.store.config())
	}
	fmt.Fprintf(&w, "providers:\n  chat: { protocol: openai-chat, base_url: \"http://%s/v1\", api_key: k }\n", upstream)
	fmt.Fprintf(&w, "  messages: { protocol: anthropic, base_url: \"http://%s\", api_key: k }\nmodels:\n", upstream)
	for i := range s.models {
		fmt.Fprintf(&w, "  %[1]s: { targets: [chat/%[1]s] }\n", tableModel(i))
	}
	if s.models > 0 {
		return w.Bytes()
	}
	for _, m := range scripts {
		fmt.Fprintf(&w, "  %[1]s: { targets: [chat/%[1]s] }\n", m)
		fmt.Fprintf(&w, "  alias-%[1]s: { targets: [chat/%[1]s] }\n", m)
		fmt.Fprintf(&w, "  %[1]s-a: { targets: [messages/%[1]s-a] }\n", m)
	}
	return w.Bytes()
}

// tableModel is the name of the i-th model of a large table.
func tableModel(i int) string { return fmt.Sprintf("whole-1024-m%06d", i) }

// startGateway starts Isogloss. Its log goes to a file, as a user's redirect sends it.
func (b *bench) startGateway(ctx context.Context, upstream string, s setting) *process {
	addresses := testrig.Must(testrig.Addresses(2))
	listen, admin := addresses[0], addresses[1]
	dir := testrig.Must(os.MkdirTemp(b.dir, "isogloss"))
	conf := filepath.Join(dir, "isogloss.yaml")
	testrig.NoError(os.WriteFile(conf, gatewayConfig(listen, admin, upstream, s), 0o600))
	if s.store != nil && s.store.nats != "" {
		b.startConsumer(ctx, dir, conf)
	}
	p := start(ctx, launch{
		name: "isogloss", addr: listen, metrics: "http://" + admin + "/metrics",
		health: "http://" + listen + "/health", dir: dir, args: []string{b.bin, "serve", "-c", conf}, env: s.env,
	})
	if s.store != nil {
		var err error
		if p.key, err = b.makeKey(ctx, conf); err == nil {
			p.ledger, err = s.store.openLedger()
		}
		if err != nil {
			p.stop()
			testrig.NoError(err)
		}
	}
	return p
}

func (b *bench) startUpstream(ctx context.Context, addr string) *process {
	if addr == "" {
		addr = testrig.Must(testrig.Address())
	}
	return start(ctx, launch{
		name: "upstream", addr: addr, health: "http://" + addr + "/health", dir: b.dir,
		args: []string{b.self, "upstream", "--listen", addr},
	})
}

func (b *bench) startBare(ctx context.Context, upstream string) *process {
	return b.startBareWith(ctx, upstream, nil)
}

func (b *bench) startBareWith(ctx context.Context, upstream string, env []string) *process {
	addresses := testrig.Must(testrig.Addresses(2))
	listen, metrics := addresses[0], addresses[1]
	return start(ctx, launch{
		name: "bare", addr: listen, metrics: "http://" + metrics, health: "http://" + listen + "/health", dir: b.dir,
		args: []string{b.self, "bare", "--listen", listen, "--metrics", metrics, "--to", "http://" + upstream},
		env:  env,
	})
}
