// Package handover lets a new process of this program take over the ports of the
// one that runs. The file that was started is started again, with the same
// arguments, so a file that took its name is a new version.
//
// The new process is given the listening sockets themselves: a connection that
// waits in a socket's queue meanwhile belongs to whoever accepts next, and none is
// lost. A new process that does not get ready changes nothing for the old one.
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

// ErrNotSupported is what New returns on systems that cannot pass sockets on.
var ErrNotSupported = tableflip.ErrNotSupported

// Options are what a Process needs to know.
type Options struct {
	PIDFile  string           // where the pid of the process that serves is written; empty: nowhere
	Patience time.Duration    // for a new process to be ready; zero: 30 seconds
	Restarts <-chan os.Signal // each is a wish for a new process
}

// Process is this process in the row of those that serve on the same ports. A
// program has one.
type Process struct {
	upgrader *tableflip.Upgrader
	options  Options
	orphaned chan struct{} // closed when the process before this one has ended
	replaced chan struct{} // closed when another one serves
	once     sync.Once
}

// New is called once, before anything listens.
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

// Listen returns the listener that the process before had under this name and
// address, or opens the address. The name tells two listeners apart that both ask
// for any free port.
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

// Ready says that this process serves: the one before may leave, and wishes for a
// new one are heard until the context ends.
func (p *Process) Ready(ctx context.Context, logger *slog.Logger) error {
	before := os.Getppid()
	if err := p.upgrader.Ready(); err != nil {
		return fmt.Errorf("%w; a pid file needs a folder that this user may write to", err)
	}
	if p.upgrader.HasParent() {
		logger.Info("this process has taken over", "pid", os.Getpid(), "from", before)
	}
	go p.hear(ctx, logger)
	return nil
}

// Replaced is closed when another process serves on these ports.
func (p *Process) Replaced() <-chan struct{} { return p.replaced }

// Close removes the pid file, unless another process has written its own.
func (p *Process) Close() {
	text, err := os.ReadFile(p.options.PIDFile)
	if err == nil && strings.TrimSpace(string(text)) == strconv.Itoa(os.Getpid()) {
		_ = os.Remove(p.options.PIDFile) // a stale one does little harm
	}
}

// hear ends with the context. A new process that is not ready by then is ended
// too, and the ports are let go of: whoever has listeners can close them.
func (p *Process) hear(ctx context.Context, logger *slog.Logger) {
	defer p.upgrader.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.options.Restarts:
			// Not to be waited for: the next wish is to be refused, not to be kept.
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
	if err := p.upgrader.Upgrade(); err != nil { //nolint:staticcheck // SA4023 takes what comes out of a channel for never nil
		logger.Error("the restart has failed and this process goes on serving", "error", err.Error())
		return
	}
	p.once.Do(func() { close(p.replaced) })
}

// refusal is why there can be no new process now.
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
