// Package handover lets a new process take over the ports of the running one. It starts
// the same file with the same arguments, so a replaced file is a new version.
//
// The new process inherits the listening sockets, so connections that wait in their
// queues are not lost. If the new process does not become ready, the old one continues.
// systemd is notified of each step if it started the program as Type=notify.
package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cloudflare/tableflip"
)

// ErrNotSupported is returned by New on systems that cannot pass on sockets.
var ErrNotSupported = tableflip.ErrNotSupported

// Options configures a Process.
type Options struct {
	PIDFile  string           // where the pid of the process that serves is written; empty: nowhere
	Patience time.Duration    // for a new process to be ready; zero: 30 seconds
	Restarts <-chan os.Signal // each is a wish for a new process
}

// Process hands listeners over between processes. A program has one.
type Process struct {
	upgrader *tableflip.Upgrader
	options  Options
	orphaned chan struct{} // closed when the process before this one has ended
	replaced chan struct{} // closed when another one serves
	once     sync.Once
	stop     context.CancelFunc // ends hear; nil before Ready
	hearing  sync.WaitGroup
}

// New returns the Process. It must be called once, before the program listens.
func New(o Options) (*Process, error) {
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	upgrader, err := tableflip.New(tableflip.Options{UpgradeTimeout: o.Patience, PIDFile: o.PIDFile})
	if err != nil {
		return nil, err
	}
	p := &Process{upgrader: upgrader, options: o, orphaned: make(chan struct{}), replaced: make(chan struct{})}
	go func() {
		_ = upgrader.WaitForParent(context.Background()) // however it ended, it has
		close(p.orphaned)
	}()
	return p, nil
}

// Listen returns the listener that the previous process had under this name and address,
// or opens the address. The name distinguishes listeners that both use port 0.
func (p *Process) Listen(ctx context.Context, name, address string) (net.Listener, error) {
	var failed error // tableflip keeps only the text of it
	l, err := p.upgrader.ListenWithCallback("tcp", name+" "+address, func(network, _ string) (net.Listener, error) {
		l, err := new(net.ListenConfig).Listen(ctx, network, address)
		failed = err
		return l, err
	})
	if failed != nil {
		return nil, failed
	}
	return l, err
}

// Ready reports that this process serves, so that the previous one drains. It then
// handles restart requests until the context ends.
func (p *Process) Ready(ctx context.Context, logger *slog.Logger) error {
	before := os.Getppid()
	if err := p.upgrader.Ready(); err != nil {
		return fmt.Errorf("%w; a pid file needs a folder that this user may write to", err)
	}
	if p.upgrader.HasParent() {
		logger.Info("this process has taken over", "pid", os.Getpid(), "from", before)
	}
	notifyReady(logger)
	ctx, p.stop = context.WithCancel(ctx)
	p.hearing.Go(func() { p.hear(ctx, logger) })
	return nil
}

// Replaced is closed when a new process serves on these ports.
func (p *Process) Replaced() <-chan struct{} { return p.replaced }

// Close stops the handling of restart requests, so that the service manager is notified
// before the process exits. It removes the pid file, unless another process has written
// its own.
func (p *Process) Close() {
	if p.stop != nil {
		p.stop()
	}
	p.hearing.Wait()
	text, err := os.ReadFile(p.options.PIDFile)
	if err == nil && strings.TrimSpace(string(text)) == strconv.Itoa(os.Getpid()) {
		_ = os.Remove(p.options.PIDFile) // a stale one does little harm
	}
}

// hear handles restart requests until the context ends. It then stops a new process that
// is not ready and releases the ports.
func (p *Process) hear(ctx context.Context, logger *slog.Logger) {
	defer p.upgrader.Stop()
	for {
		select {
		case <-ctx.Done():
			p.notifyStopping(logger)
			return
		case <-p.options.Restarts:
			// Do not wait: a further request is refused, not queued.
			go p.restart(logger)
		}
	}
}

func (p *Process) restart(logger *slog.Logger) {
	if err := p.refusal(os.Getpid()); err != nil {
		logger.Warn("the restart is refused", "error", err.Error())
		return
	}
	logger.Info("a new process is started", "at_most", p.options.Patience.String())
	notifyReloading(logger)
	if err := upgrade(p.upgrader.Upgrade); err != nil {
		logger.Error("the restart failed; this process continues to serve", "error", err.Error())
		notifyRestartFailed(logger)
		return
	}
	p.once.Do(func() { close(p.replaced) })
}

// upgrade starts a new process with start, which is tableflip's Upgrade. Each loop of
// tableflip handles one piece of news, chosen at random. A request can therefore come
// before the news that this process is ready or that the process before it has ended.
// Upgrade tries such a request again for a second.
func upgrade(start func() error) error {
	for range 100 {
		err := start()
		if err == nil || err.Error() != "process is not ready yet" && err.Error() != "parent hasn't exited" {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return start()
}

// refusal returns why no restart is possible now.
func (p *Process) refusal(pid int) error {
	if pid == 1 {
		return errors.New("this is the first process of a container, which ends with it; start a new container and end this one with SIGTERM")
	}
	select {
	case <-p.replaced:
		return errors.New("another process has taken over; send the signal to that one")
	default:
	}
	select {
	case <-p.orphaned:
		return nil
	case <-time.After(time.Second): // its end may not be known here yet
		return fmt.Errorf("process %d, which served before, still finishes its streams; wait for its end, or send it SIGTERM", os.Getppid())
	}
}
