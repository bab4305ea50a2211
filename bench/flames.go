package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// profiled is a load whose CPU time is drawn.
type profiled struct {
	file, title string
	http        versions
	client      testrig.Dialect
	script      string
	suffix      string // of the model
	stream      bool
	store       bool
	total       int
}

// profiles are a graph for each lane, with requests and with streams.
func profiles() []profiled {
	plain, encrypted := versions{h1, h1}, versions{h2, h2}
	return []profiled{
		{"flame-request", "verbatim, requests of 2 KB", plain, testrig.Chat, "whole-1024", "", false, false, 8000},
		{"flame-request-h2", "verbatim, requests of 2 KB, HTTP/2 on both sides", encrypted, testrig.Chat, "whole-1024", "", false, false, 8000},
		{"flame-request-sqlite", "verbatim, requests of 2 KB, keys and SQLite", plain, testrig.Chat, "whole-1024", "", false, true, 6000},
		{"flame-stream", "verbatim, streams of 200 events in a burst", plain, testrig.Chat, "burst-200", "", true, false, 1500},
		{"flame-stream-h2", "verbatim, streams of 200 events in a burst, HTTP/2 on both sides", encrypted, testrig.Chat, "burst-200", "", true, false, 1500},
		{"flame-stream-messages", "Messages on Chat, streams of 200 events in a burst", plain, testrig.Messages, "burst-200", "", true, false, 1000},
		{"flame-stream-responses", "Responses on Messages, streams of 200 events in a burst", plain, testrig.Responses, "burst-200", "-a", true, false, 1000},
	}
}

// runFlames draws the graphs of --flames.
func (o *options) runFlames(ctx context.Context, progress io.Writer) error {
	b, err := newBench(ctx, o, progress)
	if err != nil {
		return err
	}
	defer b.close()
	s, err := readSymbols(b.bin)
	if err != nil {
		return err
	}
	return testrig.Run(func() {
		testrig.NoError(os.MkdirAll(o.flames, 0o755)) //nolint:gosec // a folder for everyone
		for _, p := range profiles() {
			b.say("%s", p.title)
			root := testrig.Must(b.profile(p, s))
			testrig.NoError(os.WriteFile(filepath.Join(o.flames, p.file+".svg"), flame("Isogloss: "+p.title, root), 0o644)) //nolint:gosec // for everyone
		}
	})
}

// profile samples the gateway under a load.
func (b *bench) profile(p profiled, s *symbols) (*frame, error) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	up := b.startUpstreamWith(ctx, "", p.http.up)
	defer up.stop()
	set := setting{http: p.http}
	if p.store {
		set.store = &storage{data: testrig.Must(os.MkdirTemp(b.dir, "store"))}
	}
	gateway := b.startGateway(ctx, up.addr, set)
	defer gateway.stop()
	a := &arm{proc: gateway, client: p.client, suffix: p.suffix}
	j := a.job("closed", p.script, 2<<10, p.stream)
	j.Conns, j.Warm, j.Total = workers, 5*workers, p.total
	load := b.startLoad(j)
	defer load.close()
	load.next() // it is warm
	data := filepath.Join(b.dir, p.file)
	var said bytes.Buffer
	perf := exec.CommandContext(ctx, "perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-p", fmt.Sprint(gateway.pid), "-o", data) //nolint:gosec // our own process
	perf.Stderr = &said
	if err := perf.Start(); err != nil {
		return nil, err
	}
	load.proceed()
	load.next()
	_ = perf.Process.Signal(syscall.SIGINT)
	_ = perf.Wait()                                                                         // it ends by the signal
	out, err := exec.CommandContext(ctx, "perf", "script", "-i", data, "-F", "ip").Output() //nolint:gosec // our own file
	if err != nil {
		return nil, fmt.Errorf("perf: %w: %s", err, said.String())
	}
	return readStacks(bytes.NewReader(out), s)
}
