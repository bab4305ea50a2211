package redis

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
)

// Server is one Redis that accepts writes. It is safe for concurrent use.
type Server struct {
	Addr string // host:port; empty: the Sentinels have not named it yet

	client    *Client
	member    atomic.Bool                    // of a cluster
	conn      atomic.Pointer[rueidis.Client] // nil: it was not reached yet
	scripts   atomic.Pointer[scripts]        // of the server; nil: it was not reached yet
	breaker   *breaker
	startedAt time.Time
	lastReply atomic.Int64  // time of the last reply, in ns since startedAt
	inFlight  chan struct{} // limits calls in flight, so that the client's queue never fills up
	ctx       context.Context
	stop      context.CancelFunc // ends watch
}

// Probing starts early, since the outage may be a short stall. The interval is short enough to find
// Redis within a second of its return.
const (
	probeFirst = 200 * time.Millisecond
	probeNext  = 600 * time.Millisecond
)

// newServer returns a Server that was not reached yet, and so is lost.
func (c *Client) newServer(addr string) *Server {
	s := &Server{Addr: addr, client: c, breaker: newBreaker(), inFlight: make(chan struct{}, maxCalls), startedAt: time.Now()}
	s.ctx, s.stop = context.WithCancel(c.ctx)
	s.breaker.lost.Store(true)
	return s
}

// watch probes the server whenever it is lost.
func (s *Server) watch() {
	s.client.running.Go(func() { crash.Keep(s.ctx, s.client.o.Logger, s.probeLoop) })
}

func (s *Server) probeLoop() {
	for {
		select {
		case <-s.breaker.opened:
		case <-s.ctx.Done():
			return
		}
		for wait := probeFirst; s.Lost(); wait = probeNext {
			if !sleep(s.ctx, jitter(wait)) {
				return
			}
			if s.identify(s.ctx) == nil {
				s.breaker.close()
			} else {
				s.client.markStale()
			}
		}
	}
}

// jitter returns a random duration between two thirds and four thirds of d.
func jitter(d time.Duration) time.Duration {
	return d*2/3 + rand.N(d*2/3) //nolint:gosec // not security-relevant
}

// endProbe applies the result of the first probe.
func (s *Server) endProbe(err error) {
	if err == nil {
		s.breaker.close()
	} else {
		s.lose(err)
	}
}

// identify connects if necessary, reads the id of the server and loads the scripts for it.
func (s *Server) identify(ctx context.Context) error {
	if s.Addr == "" {
		return errUnreached
	}
	if s.conn.Load() == nil {
		conn, err := s.client.dial(s.Addr)
		if err != nil {
			return err
		}
		s.conn.Store(&conn)
	}
	ctx, cancel := context.WithTimeout(ctx, s.client.AtLeast(identifyTimeout))
	defer cancel()
	epoch, err := s.readID(ctx)
	if err != nil {
		return err
	}
	loaded := newScripts(epoch, s.client.o.Scripts)
	if err := s.upload(ctx, loaded); err != nil {
		return err
	}
	// The server may have been replaced between the two calls.
	if again, err := s.readID(ctx); err != nil || again != epoch {
		return cmp.Or(err, errReplaced)
	}
	s.scripts.Store(loaded)
	return nil
}

var (
	errReplaced = errors.New("redis was replaced by another server")
	errCluster  = errors.New("redis is a cluster whose masters are not known yet")
)

// readID returns a number that every start of a server has for itself.
func (s *Server) readID(ctx context.Context) (int64, error) {
	conn := *s.conn.Load()
	text, err := conn.Do(ctx, conn.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return 0, err
	}
	if strings.Contains(text, "redis_mode:cluster") && !s.member.Load() {
		s.client.cluster.Store(true)
		return 0, errCluster
	}
	_, id, ok := strings.Cut(text, "run_id:")
	if id, _, _ = strings.Cut(id, "\r\n"); !ok || id == "" {
		return 0, errors.New("redis does not say its run_id; allow the command INFO")
	}
	sum := sha256.Sum256([]byte(id))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 12), nil // numbers in Lua are exact up to 2^53
}

// upload loads the scripts into the server, so that calls can name them by hash.
func (s *Server) upload(ctx context.Context, loaded *scripts) error {
	if len(loaded.all) == 0 {
		return nil
	}
	conn := *s.conn.Load()
	var cmds []rueidis.Completed
	for _, one := range loaded.all {
		cmds = append(cmds, conn.B().ScriptLoad().Script(one.text).Build())
	}
	for _, resp := range conn.DoMulti(ctx, cmds...) {
		if err := resp.Error(); err != nil {
			return err
		}
	}
	return nil
}

// Epoch returns the id of the server; 0: it was not reached yet.
func (s *Server) Epoch() int64 {
	if now := s.scripts.Load(); now != nil {
		return now.epoch
	}
	return 0
}

// Conn returns the connection; nil: the server was not reached yet.
func (s *Server) Conn() rueidis.Client {
	if conn := s.conn.Load(); conn != nil {
		return *conn
	}
	return nil
}

// Lost reports whether the server is lost. Requests should not call it then.
func (s *Server) Lost() bool { return s.breaker.lost.Load() }

// lose declares the server lost.
func (s *Server) lose(err error) {
	s.breaker.trip()
	s.notify(err)
}

func (s *Server) notify(err error) {
	if f := s.client.lost.Load(); f != nil {
		(*f)(s, err)
	}
}

// record updates lastReply and the breaker with the result of a call.
func (s *Server) record(err error) {
	_, answered := rueidis.IsRedisErr(err)
	if answered || err == nil {
		s.lastReply.Store(s.uptime())
	}
	moved := answered && s.checkMoved(err)
	if s.breaker.record(err != nil && !moved, isConnError(err)) {
		s.client.markStale()
		s.notify(err)
	}
}

// close closes the connection.
func (s *Server) close() {
	s.stop()
	if conn := s.conn.Load(); conn != nil {
		(*conn).Close()
	}
}

// EvictionPolicy returns the policy by which the server deletes keys when its memory is full; empty: it deletes none.
func (s *Server) EvictionPolicy(ctx context.Context) (string, error) {
	conn := s.Conn()
	if conn == nil {
		return "", ErrLost
	}
	text, err := conn.Do(ctx, conn.B().Info().Section("memory").Build()).ToString()
	return evictionPolicy(text), err
}
