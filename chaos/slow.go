package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	slowReaders   = 9000
	normalStreams = 1000
	normalAtOnce  = 400 // so that a process has descriptors for all, 20,000
	perStream     = 64 << 10
	slowAdds      = time.Millisecond
	stalledCut    = 30 * time.Second
)

// runSlowClients is R14: thousands of clients that read a byte a second, and some
// that read as they should.
func runSlowClients(ctx context.Context, b *bench) error {
	const name = "r14/slow-readers"
	if b.wants(name) {
		if err := b.slowReaders(ctx, name); err != nil {
			return err
		}
	}
	const stalled = "r14/stalled-reader"
	if b.wants(stalled) {
		return b.stalledReader(ctx, stalled)
	}
	return nil
}

func (b *bench) slowReaders(ctx context.Context, name string) error {
	began := time.Now()
	s := &setup{}
	slow := b.up.add("slowly", playRefill)
	b.up.add("normal", answerAs("good"))
	s.model("slow", []string{s.provider("slowly", chat, b.up.url("slowly", chat))})
	s.model("normal", []string{s.provider("normal", chat, b.up.url("normal", chat))})
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	var warm, alone, beside load
	b.normal(ctx, g, &warm)
	b.normal(ctx, g, &alone)
	before, err := g.vitals(ctx)
	if err != nil {
		return err
	}
	ctxSlow, stop := context.WithCancel(ctx)
	defer stop()
	var reading atomic.Int64
	var readers sync.WaitGroup
	n := slowReaders
	if b.short {
		n /= 10
	}
	for i := range n {
		readers.Go(func() { readSlowly(ctxSlow, g, &reading) })
		if i%50 == 49 {
			time.Sleep(25 * time.Millisecond)
		}
	}
	eventually(30*time.Second, func() bool { return reading.Load() >= int64(n) && slow.open.Load() >= int64(n) })
	b.progress("r14: %d slow readers", reading.Load())
	time.Sleep(3 * time.Second)
	b.normal(ctx, g, &beside)
	during, err := g.vitals(ctx)
	if err != nil {
		return err
	}
	held := slow.open.Load()
	stop()
	readers.Wait()
	measured, wrong := judgeSlow(&alone, &beside, before, during, held)
	if held < int64(n) {
		wrong = append(wrong, fmt.Sprintf("%d of %d slow streams were open", held, n))
	}
	b.check(name, measured, began, wrong...)
	b.up.hangUp()
	_, err = g.stop()
	return err
}

// normal sends the thousand as streams, not more than some at a time, and as many
// to the upstream itself.
func (b *bench) normal(ctx context.Context, g *gateway, to *load) {
	bare := g.direct(b.up, "normal")
	free := make(chan struct{}, normalAtOnce)
	offer(ctx, 500, 2*normalStreams*time.Second/500, func(i int) {
		free <- struct{}{}
		defer func() { <-free }()
		if i%2 == 0 {
			to.add(g.measure(ctx, query{model: "normal", stream: true, class: "gateway"}))
		} else {
			to.add(bare.measure(ctx, query{model: "normal", stream: true, class: "direct"}))
		}
	})
}

// overhead is what the gateway adds to p99 until the first byte.
func overhead(l *load) (added, through time.Duration) {
	through = quantile(firsts(l.pick(func(s sample) bool { return s.class == "gateway" })), 0.99)
	return through - quantile(firsts(l.pick(func(s sample) bool { return s.class == "direct" })), 0.99), through
}

func judgeSlow(alone, beside *load, before, during vitals, held int64) (string, []string) {
	each := (during.rss - before.rss) / float64(max(held, 1))
	a, throughAlone := overhead(alone)
	c, throughBeside := overhead(beside)
	measured := fmt.Sprintf("%d slow readers, %.1f KiB each; p99 until the first byte of %d normal ones %s alone, %s of it the gateway's, and %s beside them, %s of it the gateway's",
		held, each/1024, len(beside.all)/2, ms(throughAlone), ms(a), ms(throughBeside), ms(c))
	var wrong []string
	if each > perStream {
		wrong = append(wrong, fmt.Sprintf("%.1f KiB for each stream, want at most %d", each/1024, perStream>>10))
	}
	if c-a > slowAdds {
		wrong = append(wrong, fmt.Sprintf("the gateway adds %s more to the first byte of normal clients, want at most %s", ms(c-a), slowAdds))
	}
	if bad := beside.pick(func(s sample) bool { return !isGood(s) }); len(bad) > 0 {
		wrong = append(wrong, fmt.Sprintf("%d normal requests failed; one with status %d: %s", len(bad), bad[0].status, bad[0].body))
	}
	return measured, wrong
}

// dialSlow opens a connection with the smallest of buffers and asks on it.
func dialSlow(ctx context.Context, g *gateway, model string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10) // a wish
	}
	body := chat.ask(model, true)
	_, err = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return c, err
}

func readSlowly(ctx context.Context, g *gateway, reading *atomic.Int64) {
	c, err := dialSlow(ctx, g, "slow")
	if err != nil {
		return
	}
	defer c.Close()
	one := make([]byte, 1)
	if _, err := io.ReadFull(c, one); err != nil {
		return
	}
	reading.Add(1)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := c.Read(one); err != nil {
			return
		}
	}
}

// playRefill says more than a slow reader can take and then little.
func playRefill(c *call) bool {
	s := c.good("good").stream()
	c.head(200, eventMedia, -1)
	c.chunks(s.head...)
	block := chunked(strings.Join(s.words, ""))
	for range 20 { // 64 KB
		if !c.write(block) {
			return c.hold()
		}
	}
	for range 30 {
		if !c.wait(10 * time.Second) {
			return false
		}
		c.write(block)
	}
	return false
}

// stalledReader does not read at all, and is to be cut in time.
func (b *bench) stalledReader(ctx context.Context, name string) error {
	began := time.Now()
	s := &setup{}
	t := b.up.add("flood", playFlood)
	s.model("flood", []string{s.provider("flood", chat, b.up.url("flood", chat))})
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	c, err := dialSlow(ctx, g, "flood")
	if err != nil {
		return err
	}
	defer c.Close()
	asked := time.Now()
	wrong := ""
	if !eventually(stalledCut+10*time.Second, func() bool { return t.left.Load() == 1 }) {
		wrong = "the stream of a client that does not read is still open"
	}
	b.check(name, fmt.Sprintf("cut after %v", time.Since(asked).Round(100*time.Millisecond)), began, wrong)
	b.up.hangUp()
	_, err = g.stop()
	return err
}
