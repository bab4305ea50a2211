package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

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
	pairs  bool     // the models of dialectModel too
	http   versions // the zero value is h1/h1
}

// tls returns the setting of the client port, and the URL scheme of upstreams.
func (s *setting) tls(dir string) (client, upstream string) {
	if s.http.client != "" && s.http.client != h1 {
		client = fmt.Sprintf("tls: { cert: %q, key: %q }\n", filepath.Join(dir, certificateFile), filepath.Join(dir, keyFile))
	}
	return client, scheme(cmp.Or(s.http.up, h1))
}

// gatewayConfig is what a user would write: two providers, names for their models.
// The names with alias- in front are served under another name upstream.
func gatewayConfig(dir, listen, admin, upstream string, s setting) []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "listen: %s\nadmin: { listen: %q }\n", listen, admin)
	if s.quiet {
		fmt.Fprintln(&w, "log: { level: warn }")
	}
	if s.store != nil {
		w.WriteString(s.store.config())
	}
	client, scheme := s.tls(dir)
	w.WriteString(client)
	fmt.Fprintf(&w, "providers:\n  chat: { protocol: openai-chat, base_url: \"%s://%s/v1\", api_key: k }\n", scheme, upstream)
	fmt.Fprintf(&w, "  messages: { protocol: anthropic, base_url: \"%s://%s\", api_key: k }\n", scheme, upstream)
	if s.pairs {
		for _, d := range testrig.Dialects() {
			fmt.Fprintf(&w, "  of-%[1]s: { protocol: %[1]s, base_url: \"%[2]s://%[3]s%[4]s\", api_key: k }\n", d, scheme, upstream, d.Base())
		}
	}
	w.WriteString("models:\n")
	if s.pairs {
		for _, d := range slices.DeleteFunc(testrig.Dialects(), func(d testrig.Dialect) bool { return d == testrig.Messages }) { // the scripts have it
			fmt.Fprintf(&w, "  %s: { targets: [of-%s/%s] }\n", dialectModel(d), d, dialectModel(d))
		}
	}
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
	testrig.NoError(os.WriteFile(conf, gatewayConfig(b.dir, listen, admin, upstream, s), 0o600))
	if s.store != nil && s.store.nats != "" {
		b.startConsumer(ctx, dir, conf)
	}
	p := start(ctx, launch{
		name: "isogloss", addr: listen, http: s.http.client, metrics: "http://" + admin + "/metrics",
		health: scheme(cmp.Or(s.http.client, h1)) + "://" + listen + "/health", dir: dir, args: []string{b.bin, "serve", "-c", conf}, env: b.trust(s.env),
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

// trust adds to an environment that the certificate of the run is trusted.
func (b *bench) trust(env []string) []string {
	return append(slices.Clone(env), "SSL_CERT_FILE="+filepath.Join(b.dir, certificateFile))
}

func (b *bench) startUpstream(ctx context.Context, addr string) *process {
	return b.startUpstreamWith(ctx, addr, h1)
}

func (b *bench) startUpstreamWith(ctx context.Context, addr, version string) *process {
	at := endpoint{listen: addr, http: version, dir: b.dir}
	if addr == "" {
		at.listen = testrig.Must(testrig.Address())
	}
	return start(ctx, launch{
		name: "upstream", addr: at.listen, http: version, health: scheme(version) + "://" + at.listen + "/health", dir: b.dir,
		args: append([]string{b.self, "upstream"}, at.args()...),
	})
}

func (b *bench) startBare(ctx context.Context, upstream string) *process {
	return b.startBareWith(ctx, upstream, versions{h1, h1}, nil)
}

func (b *bench) startBareWith(ctx context.Context, upstream string, v versions, env []string) *process {
	addresses := testrig.Must(testrig.Addresses(2))
	at, metrics := endpoint{listen: addresses[0], http: v.client, dir: b.dir}, addresses[1]
	return start(ctx, launch{
		name: "bare", addr: at.listen, http: v.client, metrics: "http://" + metrics, health: scheme(v.client) + "://" + at.listen + "/health", dir: b.dir,
		args: append([]string{b.self, "bare", "--metrics", metrics, "--to", scheme(v.up) + "://" + upstream, "--up", v.up}, at.args()...),
		env:  env,
	})
}
