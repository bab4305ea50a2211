package capture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// ErrNotRunning says that no gateway listens on a socket.
var ErrNotRunning = errors.New("no gateway is running there")

// ErrStopped says that the gateway has stopped and no other process took over.
var ErrStopped = errors.New("the gateway has stopped")

// takeoverTimeout is how long a process that takes over may need to start.
const takeoverTimeout = 5 * time.Second

// Handler has the functions that Attach calls.
type Handler struct {
	Attached func() // called again where another process takes over
	Exchange func(*Exchange) error
	Missed   func(oversized, dropped int64) // exchanges that matched and were not delivered, so far
}

// Attach receives exchanges from the gateway at a socket until there are f.Count of them
// or the context ends. Where another process takes over the socket, it attaches to that.
func Attach(ctx context.Context, socket string, f Filter, h Handler) error {
	left := f.Count
	for first := true; ; first = false {
		f.Count = left
		n, again, err := attachOnce(ctx, socket, f, h)
		if left -= n; ctx.Err() != nil || left <= 0 {
			return nil //nolint:nilerr // all exchanges were received, or the context has ended
		}
		if errors.Is(err, ErrNotRunning) && !first {
			again, err = true, nil
		}
		if err != nil || !again {
			return err
		}
		if err := awaitTakeover(ctx, socket); err != nil {
			return err
		}
	}
}

// awaitTakeover waits until another process listens on the socket.
func awaitTakeover(ctx context.Context, socket string) error {
	timeout := time.After(takeoverTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := dial(ctx, socket); err == nil {
			_ = conn.Close()
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timeout:
			return ErrStopped
		case <-tick.C:
		}
	}
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, ErrNotRunning
	}
	return conn, err
}

// Alive reports whether a gateway listens on a socket.
func Alive(ctx context.Context, socket string) bool {
	conn, err := dial(ctx, socket)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// attachOnce receives exchanges from one process and returns how many. again reports that
// the process has stopped and another may take over.
func attachOnce(ctx context.Context, socket string, f Filter, h Handler) (n int, again bool, err error) {
	conn, err := dial(ctx, socket)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	filter, err := json.Marshal(f)
	if err != nil {
		return 0, false, err
	}
	if _, err := conn.Write(append(filter, '\n')); err != nil {
		return 0, true, nil // it is stopping
	}
	in := json.NewDecoder(bufio.NewReader(conn))
	var last message // with the counts that were reported last
	for n < f.Count {
		var m message
		switch err := in.Decode(&m); {
		case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
			return n, true, nil
		case err != nil:
			return n, false, err
		case m.Refused != "":
			return n, false, fmt.Errorf("the gateway refuses the capture: %s", m.Refused)
		case m.Stopping:
			return n, true, nil
		case m.Attached:
			h.Attached()
		}
		if m.Oversized+m.Dropped > last.Oversized+last.Dropped {
			last = m
			h.Missed(m.Oversized, m.Dropped)
		}
		if m.Exchange != nil {
			n++
			if err := h.Exchange(m.Exchange); err != nil {
				return n, false, err
			}
		}
	}
	return n, false, nil
}
