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

// ErrNobody is that no gateway listens on a socket.
var ErrNobody = errors.New("no gateway is running there")

// ErrEnded is that the gateway has ended, and no other has taken over.
var ErrEnded = errors.New("the gateway has ended")

// afterLeaving is how long a process that takes over may need to be there.
const afterLeaving = 5 * time.Second

// Watch is what a command is told.
type Watch struct {
	Attached func() // may be called again, where another process has taken over
	Exchange func(*Exchange) error
	Missed   func(large, busy int64) // counts so far
}

// Attach asks the gateway at a socket for exchanges until there are enough of them
// or the context ends. Where another process takes over, it goes on with that.
func Attach(ctx context.Context, socket string, f Filter, w Watch) error {
	left := f.Count
	for first := true; ; first = false {
		f.Count = left
		n, again, err := once(ctx, socket, f, w)
		if left -= n; ctx.Err() != nil || left <= 0 {
			return nil //nolint:nilerr // what was asked for has come, or is not wanted any more
		}
		if errors.Is(err, ErrNobody) && !first {
			again, err = true, nil
		}
		if err != nil || !again {
			return err
		}
		if err := successor(ctx, socket); err != nil {
			return err
		}
	}
}

// successor waits for the process that takes over.
func successor(ctx context.Context, socket string) error {
	late := time.After(afterLeaving)
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
		case <-late:
			return ErrEnded
		case <-tick.C:
		}
	}
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, ErrNobody
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

// once is one attachment. again is that the process was about to end.
func once(ctx context.Context, socket string, f Filter, w Watch) (n int, again bool, err error) {
	conn, err := dial(ctx, socket)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	word, err := json.Marshal(f)
	if err != nil {
		return 0, false, err
	}
	if _, err := conn.Write(append(word, '\n')); err != nil {
		return 0, true, nil // it was about to end
	}
	in := json.NewDecoder(bufio.NewReader(conn))
	var told message // the counts that were told last
	for n < f.Count {
		var m message
		switch err := in.Decode(&m); {
		case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
			return n, true, nil
		case err != nil:
			return n, false, err
		case m.Refused != "":
			return n, false, fmt.Errorf("the gateway refuses: %s", m.Refused)
		case m.Leaving:
			return n, true, nil
		case m.Attached:
			w.Attached()
		}
		if m.Large+m.Missed > told.Large+told.Missed {
			told = m
			w.Missed(m.Large, m.Missed)
		}
		if m.Exchange != nil {
			n++
			if err := w.Exchange(m.Exchange); err != nil {
				return n, false, err
			}
		}
	}
	return n, false, nil
}
