package capture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
)

const (
	filterTimeout = 5 * time.Second  // for the command to send its filter
	writeTimeout  = 10 * time.Second // for the command to read a message
	maxFilter     = 64 << 10         // bytes
)

// message is one line from the gateway to an attached command.
type message struct {
	Attached  bool      `json:"attached,omitempty"` // the first message
	Exchange  *Exchange `json:"exchange,omitempty"`
	Oversized int64     `json:"large,omitempty"`   // exchanges that exceeded the limit, so far
	Dropped   int64     `json:"missed,omitempty"`  // exchanges that matched while too many were open, so far
	Refused   string    `json:"refused,omitempty"` // why the command may not attach
	Stopping  bool      `json:"leaving,omitempty"` // the process stops, and another may take over
}

// Options are the options of a Server.
type Options struct {
	Hub      *Hub
	Address  string // see AddressOf
	Logger   *slog.Logger
	Attached func(uid string, f Filter) // called in a goroutine for each command that attaches; may be nil
}

// Server lets commands attach over a Unix socket. The permissions of its file allow the
// user that the gateway runs as, and root.
type Server struct {
	options  Options
	name     string
	own      os.FileInfo // the socket's file, to tell it from that of a process that took over
	listener *net.UnixListener
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// Serve opens the socket of a gateway. It replaces a socket of the same name, which
// belongs to the process before this one.
func Serve(o Options) (*Server, error) {
	dir, err := ownFolder()
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, fileName(o.Address))
	// The socket is created under another name and then renamed, so that a process
	// listens on the name at all times, with the right permissions.
	fresh := name + "." + strconv.Itoa(os.Getpid())
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	s := &Server{options: o, name: name, listener: l}
	if s.own, err = place(fresh, name); err != nil {
		_ = l.Close() // no command has attached
		_ = os.Remove(fresh)
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.running.Go(s.accept)
	return s, nil
}

// place sets the socket's permissions and renames it.
func place(fresh, name string) (os.FileInfo, error) {
	if err := os.Chmod(fresh, 0o600); err != nil {
		return nil, err
	}
	info, err := os.Lstat(fresh)
	if err != nil {
		return nil, err
	}
	return info, os.Rename(fresh, name)
}

// Close detaches all commands. It removes the socket's file, unless another process has
// replaced it.
func (s *Server) Close() {
	if now, err := os.Lstat(s.name); err == nil && os.SameFile(now, s.own) {
		_ = os.Remove(s.name) // a stale file does no harm
	}
	_ = s.listener.Close()
	s.stop()
	s.running.Wait()
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		if err != nil {
			return // it was closed
		}
		s.running.Go(func() {
			defer func() { _ = conn.Close() }()
			crash.Do(s.options.Logger, func() { s.attend(conn) })
		})
	}
}

// attend serves one command.
func (s *Server) attend(conn *net.UnixConn) {
	uid, allowed := peer(conn)
	_ = conn.SetReadDeadline(time.Now().Add(filterTimeout))
	lines := &lines{conn: conn}
	var f Filter
	switch err := lines.read(&f); {
	case err != nil:
		return
	case !allowed:
		_ = lines.write(message{Refused: "only the user that the gateway runs as, and root, may attach"})
		return
	}
	v, ok := s.options.Hub.attach(uid, f)
	if !ok {
		_ = lines.write(message{Refused: fmt.Sprintf("%d commands are attached already; end one of them", maxAttached)})
		return
	}
	defer s.options.Hub.detach(v)
	_ = conn.SetReadDeadline(time.Time{})
	s.options.Logger.Warn("capture attached: matching exchanges are sent to a command", "uid", uid, "model", f.Model, "key", f.Key, "request", f.Request, "all", f.All, "count", f.Count)
	if s.options.Attached != nil {
		s.running.Go(func() { s.options.Attached(uid, f) })
	}
	sent := s.deliver(lines, v)
	s.options.Logger.Warn("capture detached", "uid", uid, "sent", sent)
}

// deliver sends exchanges until the command disconnects or has all of them. It returns
// how many it sent.
func (s *Server) deliver(l *lines, v *viewer) (sent int) {
	gone := make(chan struct{})
	go func() { // ends with the connection, which attend's caller closes
		defer close(gone)
		var nothing [1]byte
		_, _ = l.conn.Read(nothing[:]) // a command sends nothing after its filter
	}()
	defer func() {
		_ = l.conn.Close()
		<-gone
	}()
	if l.write(message{Attached: true}) != nil {
		return 0
	}
	for sent < v.filter.Count {
		m := message{}
		select {
		case m.Exchange = <-v.out:
			m.Exchange.redact()
			v.open.Add(-1)
			sent++
		case <-v.changed:
		case <-gone:
			return sent
		case <-s.ctx.Done():
			_ = l.write(message{Stopping: true})
			return sent
		}
		m.Oversized, m.Dropped = v.oversized.Load(), v.dropped.Load()
		if l.write(m) != nil {
			return sent
		}
	}
	return sent
}

// lines reads and writes messages, one per line.
type lines struct{ conn *net.UnixConn }

func (l *lines) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // a command that hangs is disconnected
	_, err = l.conn.Write(append(b, '\n'))
	return err
}

// read reads the only line that a command sends, so that the buffer holds nothing after
// it.
func (l *lines) read(v any) error {
	line, err := bufio.NewReaderSize(l.conn, maxFilter).ReadSlice('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}
