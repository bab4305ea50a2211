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
)

const (
	wordPatience = 5 * time.Second  // for the one line that says what is wanted
	takePatience = 10 * time.Second // for a command to take what it wanted
	maxWord      = 64 << 10
)

// message is one line from the gateway to who is attached.
type message struct {
	Attached bool      `json:"attached,omitempty"` // the first one
	Exchange *Exchange `json:"exchange,omitempty"`
	Large    int64     `json:"large,omitempty"`  // so many were larger than the limit
	Missed   int64     `json:"missed,omitempty"` // so many came when there were too many
	Refused  string    `json:"refused,omitempty"`
	Leaving  bool      `json:"leaving,omitempty"` // the process ends, and another may have taken over
}

// Options are what a Server needs to know.
type Options struct {
	Hub      *Hub
	Address  string // see AddressOf
	Logger   *slog.Logger
	Attached func(uid string, f Filter) // told of each who attaches, apart; may be nil
}

// Server lets commands attach over a socket. Who may is decided by the file's
// permissions: the user that the gateway runs as, and root.
type Server struct {
	options  Options
	name     string
	own      os.FileInfo // the socket's file, to tell it from a successor's
	listener *net.UnixListener
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// Serve opens the socket of a gateway. One of the same name is taken over: it is of
// the process before, or of one that was killed.
func Serve(o Options) (*Server, error) {
	dir, err := ownFolder()
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, fileName(o.Address))
	// It is made under another name and then moved, so that the name always leads
	// to somebody who listens with the right permissions.
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
		_ = l.Close() // nobody has attached
		_ = os.Remove(fresh)
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.running.Go(s.accept)
	return s, nil
}

// place gives the socket its permissions and then its name.
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

// Name is the socket's file.
func (s *Server) Name() string { return s.name }

// Close ends all captures. The file is removed, unless another process has put its
// own in its place.
func (s *Server) Close() {
	if now, err := os.Lstat(s.name); err == nil && os.SameFile(now, s.own) {
		_ = os.Remove(s.name) // a stale one does no harm
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
			s.attend(conn)
		})
	}
}

// attend serves one command from its word to its end.
func (s *Server) attend(conn *net.UnixConn) {
	uid, allowed := peer(conn)
	_ = conn.SetReadDeadline(time.Now().Add(wordPatience))
	lines := &lines{conn: conn}
	var f Filter
	switch err := lines.read(&f); {
	case err != nil:
		return
	case !allowed:
		_ = lines.write(message{Refused: "only the user that the gateway runs as, and root, may attach"})
		return
	}
	v, ok := s.options.Hub.join(f)
	if !ok {
		_ = lines.write(message{Refused: fmt.Sprintf("%d commands are attached already; end one of them", maxAttached)})
		return
	}
	defer s.options.Hub.leave(v)
	_ = conn.SetReadDeadline(time.Time{})
	s.options.Logger.Warn("capture attached: exchanges that match are handed to a command", "uid", uid, "model", f.Model, "key", f.Key, "request", f.Request, "all", f.All, "count", f.Count)
	if s.options.Attached != nil {
		s.running.Go(func() { s.options.Attached(uid, f) })
	}
	given := s.show(lines, v)
	s.options.Logger.Warn("capture detached", "uid", uid, "given", given)
}

// show hands over what there is until the command leaves or has all that it wanted.
func (s *Server) show(l *lines, v *viewer) (given int) {
	gone := make(chan struct{})
	go func() { // ends with the connection, which attend's caller closes
		defer close(gone)
		var nothing [1]byte
		_, _ = l.conn.Read(nothing[:]) // a command says nothing more
	}()
	defer func() {
		_ = l.conn.Close()
		<-gone
	}()
	if l.write(message{Attached: true}) != nil {
		return 0
	}
	for given < v.filter.Count {
		m := message{}
		select {
		case m.Exchange = <-v.out:
			m.Exchange.clean()
			v.open.Add(-1)
			given++
		case <-v.news:
		case <-gone:
			return given
		case <-s.ctx.Done():
			_ = l.write(message{Leaving: true})
			return given
		}
		m.Large, m.Missed = v.large.Load(), v.missed.Load()
		if l.write(m) != nil {
			return given
		}
	}
	return given
}

// lines are messages, one a line.
type lines struct{ conn *net.UnixConn }

func (l *lines) write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(takePatience)) // a command that hangs is left
	_, err = l.conn.Write(append(b, '\n'))
	return err
}

// read reads the one line that a command says. It says nothing more, so nothing of
// what comes after is lost in the buffer.
func (l *lines) read(v any) error {
	line, err := bufio.NewReaderSize(l.conn, maxWord).ReadSlice('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}
