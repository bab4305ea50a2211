package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// restartSize says how much load a rolling restart runs under.
type restartSize struct {
	restarts, streams, workers int
	streamTime                 time.Duration // of each stream
}

const streamEvents = 40 // of each stream

// runRestart plays r15: new processes take over while streams are open and requests come
// in, and nothing is lost. The model "found" belongs to a discovered worker whose source
// is gone during the restarts: a process that serves before it has read its snapshot of
// the workers does not know the model.
func runRestart(ctx context.Context, r *rig) {
	const name = "r15/rolling-restart"
	if !r.Wants(name) {
		return
	}
	began, cpu := time.Now(), testrig.ReadCPUTime()
	size := restartSize{restarts: 10, streams: 1000, workers: 64, streamTime: 20 * time.Second}
	if r.short {
		size.restarts, size.streams, size.streamTime = 1, 200, 4*time.Second
	}
	dir := testrig.Must(os.MkdirTemp("", "isogloss-restart-"))
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	g := testrig.Must(testrig.NewGateway(r.bin, dir, "gateway"))
	defer g.Close()
	r.up.Handle("up", paced(size.streamTime/streamEvents))
	url, list := r.up.URL("up", testrig.Chat), filepath.Join(dir, "workers.json")
	testrig.NoError(os.WriteFile(list, fmt.Appendf(nil, `[{"id": "w", "model": "found", "protocol": "openai-chat", "url": %q, "name": "m"}]`, url), 0o600))
	text := fmt.Sprintf("data: %q\ndiscover: { file: %q, networks: [127.0.0.0/8] }\nproviders: { up: { protocol: openai-chat, base_url: %q } }\nmodels: { fast: { targets: [up/m] } }\nlog: { level: warn }\n", g.Data, list, url)
	testrig.NoError(errors.Join(g.Configure(text), g.Start(ctx)))
	testrig.NoError(testrig.Until(ctx, settleTime, "the snapshot of the workers is not written", func() bool {
		_, err := os.Stat(filepath.Join(g.Data, "workers.snapshot"))
		return err == nil
	}))
	testrig.NoError(os.Remove(list))
	l := newRestartLoad(ctx, g, size)
	var problems, goals []string
	for range size.restarts {
		h, err := l.restart(ctx)
		if err != nil {
			l.end()
			testrig.NoError(err)
		}
		r.Progress("r15: %s", h)
		goals = append(goals, testrig.When(h.draining > drainingGoal, "/health of the old process reports draining %s after the new one serves, want at most %v", h.draining, drainingGoal))
		problems = append(problems, testrig.When(h.files > 100+size.streams, "the new process has %d descriptors", h.files))
	}
	l.end()
	r.Figures(name, fmt.Sprintf("%d restarts; %d streams complete, %d truncated; %d answers complete, %d failed", size.restarts, l.streams.good.Load(), l.streams.failed.Load(),
		l.answers.good.Load(), l.answers.failed.Load()), began, cpu, goals, append(append(problems, l.streams.problems()...), l.answers.problems()...)...)
	testrig.Must(g.Stop(ctx))
}

// paced answers at once, and streams with an event in every interval.
func paced(every time.Duration) testrig.Script {
	return func(c *testrig.Call) bool {
		if !c.Stream {
			return testrig.Answer("good")(c)
		}
		s := testrig.Reply{Dialect: c.Dialect, Words: strings.Split(strings.Repeat("isogloss ", streamEvents), " ")[:streamEvents], Usage: c.Usage}.Stream()
		c.StartStream()
		c.Chunks(s.Head...)
		for _, w := range s.Words {
			if !c.Chunks(w) || !c.Wait(every) {
				return false
			}
		}
		return c.Chunks(s.Tail...) && c.End()
	}
}

// tally counts requests and keeps the first few problems.
type tally struct {
	good, failed atomic.Int64
	reasons      testrig.History[string]
}

func (t *tally) add(problem string) {
	if problem == "" {
		t.good.Add(1)
	} else if t.failed.Add(1) <= 10 {
		t.reasons.Add(problem)
	}
}

func (t *tally) problems() []string { return t.reasons.List() }

// restartLoad is the load of a rolling restart: streams that are always open, and
// workers that send one request after the other.
type restartLoad struct {
	restartSize
	gateway          *testrig.Gateway
	streams, answers tally
	open             atomic.Int64 // streams
	running          context.Context
	stop             context.CancelFunc
	wg               sync.WaitGroup
}

func newRestartLoad(ctx context.Context, g *testrig.Gateway, size restartSize) *restartLoad {
	l := &restartLoad{restartSize: size, gateway: g}
	l.running, l.stop = context.WithCancel(ctx)
	for i := range size.streams {
		l.wg.Go(func() { l.follow(ctx, i) })
	}
	for range size.workers {
		l.wg.Go(func() {
			c := testrig.NewClient(g.URL)
			defer c.Close()
			for l.running.Err() == nil {
				l.answers.add(complete(testrig.Chat, c.Send(ctx, testrig.Chat, testrig.Query{Model: "fast"}), false, testrig.Text("good")))
				testrig.Pause(l.running, rand.N(100*time.Millisecond))
			}
		})
	}
	return l
}

// end waits for the streams that are open.
func (l *restartLoad) end() {
	l.stop()
	l.wg.Wait()
}

// complete returns the problem of a response that has to be complete.
func complete(d testrig.Dialect, resp testrig.Response, stream bool, text string) string {
	o := d.Read(resp, stream)
	return testrig.Unless(resp.Err == nil && o.Complete() && o.Text == text, "status %d, connection error %v, %s: %s", resp.Status, resp.Err, o, testrig.Clip(string(resp.Body), 200))
}

// follow keeps one stream open, of a client of the upstream's dialect or another one.
// The streams start at different times, so that they do not all end at once.
func (l *restartLoad) follow(ctx context.Context, i int) {
	c := testrig.NewClient(l.gateway.URL)
	defer c.Close()
	d := []testrig.Dialect{testrig.Chat, testrig.Messages}[i%2]
	q := testrig.Query{Model: []string{"fast", "found"}[i/2%2], Stream: true}
	testrig.Pause(l.running, time.Duration(i)*l.streamTime/time.Duration(l.restartSize.streams))
	for l.running.Err() == nil {
		resp, err := c.Open(ctx, d, q)
		if err != nil {
			l.streams.add("a stream was refused: " + err.Error())
			continue
		}
		l.open.Add(1)
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it is read to its end
		l.open.Add(-1)
		l.streams.add(complete(d, testrig.Response{Status: resp.StatusCode, Header: resp.Header, Body: body, Err: err}, true, strings.Repeat("isogloss", streamEvents)))
	}
}

// settleTime is far more than any step of a restart or a reload takes.
const settleTime = patience

// drainingGoal is how soon the old process reports on a quiet machine that it drains. It has
// to report it before it ends.
const drainingGoal = time.Second

// handover is one restart.
type handover struct {
	open     int64         // streams at the time of the signal
	ready    time.Duration // from the signal to the new pid
	draining time.Duration // from the new pid until the old process reports that it drains
	ended    time.Duration // from the new pid to the end of the old process
	files    int           // descriptors of the new process when it was ready
}

func (h handover) String() string {
	return fmt.Sprintf("%d streams open; new process ready after %s, old one draining %s later, ended %s later; %d descriptors",
		h.open, h.ready.Round(time.Millisecond), h.draining.Round(time.Millisecond), h.ended.Round(time.Millisecond), h.files)
}

// restart replaces the process when nearly all streams are open, and waits for the end
// of the old process.
func (l *restartLoad) restart(ctx context.Context) (h handover, err error) {
	g, old := l.gateway, l.gateway.PID()
	enough := int64(l.restartSize.streams) * 99 / 100
	if err := testrig.Until(ctx, l.streamTime+settleTime, "the streams do not open", func() bool { return l.open.Load() >= enough }); err != nil {
		return h, err
	}
	probe, err := dialHealth(ctx, g.URL)
	if err != nil {
		return h, err
	}
	defer probe.conn.Close()
	h.open = l.open.Load()
	sent := time.Now()
	if err := g.Signal(syscall.SIGHUP); err != nil {
		return h, err
	}
	if err := testrig.Until(ctx, settleTime, "there is no new process", func() bool { pid := g.PID(); return pid != 0 && pid != old }); err != nil {
		return h, fmt.Errorf("%w; the log: %s", err, g.LogTail())
	}
	ready := time.Now()
	h.ready, h.files = ready.Sub(sent), testrig.OpenFiles(g.PID())
	if err := testrig.Until(ctx, settleTime, "the old process does not report that it drains", func() bool { return probe.status() == http.StatusServiceUnavailable }); err != nil {
		return h, err
	}
	h.draining = time.Since(ready)
	err = testrig.Until(ctx, l.streamTime+settleTime, "the old process does not end", func() bool { return !testrig.ProcessAlive(old) })
	h.ended = time.Since(ready)
	return h, err
}

// health is a connection on which one process is asked for its health. A new connection
// would reach whichever process accepts it.
type health struct {
	conn net.Conn
	r    *bufio.Reader
}

func dialHealth(ctx context.Context, url string) (*health, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, err
	}
	h := &health{c, bufio.NewReader(c)}
	if status := h.status(); status != http.StatusOK {
		_ = c.Close() // it is of no use
		return nil, fmt.Errorf("/health has status %d", status)
	}
	return h, nil
}

// status returns the status of /health, 0 without a response.
func (h *health) status() int {
	_ = h.conn.SetDeadline(time.Now().Add(settleTime)) // the next call fails too
	if _, err := io.WriteString(h.conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(h.r, nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // the connection is used again
	return resp.StatusCode
}
