package redis

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/resp"
)

// Options configure a Server.
type Options struct {
	URL     string
	Timeout time.Duration // of a call that a request waits for
	Scripts []string      // texts of the scripts; the variable epoch is the id of the server
	// Lost is called when the server is lost. It must not block.
	Lost func(error)
}

// Server is a Redis, or a cluster of them. It is safe for concurrent use.
type Server struct {
	o         Options
	client    atomic.Pointer[rueidis.Client]
	clientOpt rueidis.ClientOption
	scripts   atomic.Pointer[scripts] // of the server; nil: it was not reached yet
	breaker   *breaker
	startedAt time.Time
	lastReply atomic.Int64  // time of the last reply, in ns since startedAt
	inFlight  chan struct{} // limits calls in flight, so that the client's queue never fills up
}

const (
	ringScale = 13   // the client queues up to 2^13 calls
	maxCalls  = 2048 // in flight

	dialTimeout = 250 * time.Millisecond
	// stuckTimeout closes a connection that does not respond.
	stuckTimeout = time.Second
	// identifyTimeout is that of all calls that identify a server.
	identifyTimeout = 250 * time.Millisecond
)

// New returns a Server that is not connected. It fails only for an invalid URL.
func New(o Options) (*Server, error) {
	options, err := rueidis.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("redis: the URL cannot be read; write it as redis://user:password@host:port/0: %w", redact(err))
	}
	options.DisableCache, options.DisableRetry, options.AlwaysPipelining = true, true, true
	options.RingScaleEachConn, options.PipelineMultiplex = ringScale, -1
	options.Dialer.Timeout, options.ConnWriteTimeout = dialTimeout, stuckTimeout
	options.ClientName = "isogloss"
	resp.Guard(&options)
	return &Server{o: o, clientOpt: options, breaker: newBreaker(), inFlight: make(chan struct{}, maxCalls), startedAt: time.Now()}, nil
}

// redact drops the URL, which may contain a password, from an error about it.
func redact(err error) error {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err
}

// Identify connects if necessary, reads the id of the server and loads the scripts for it. It reports
// whether the server is another one than before. The first one is.
func (s *Server) Identify() (changed bool, err error) {
	if s.client.Load() == nil {
		client, err := rueidis.NewClient(s.clientOpt)
		if err != nil {
			return false, err
		}
		s.client.Store(&client)
	}
	ctx, cancel := context.WithTimeout(context.Background(), identifyTimeout)
	defer cancel()
	epoch, err := s.readID(ctx)
	if err != nil {
		return false, err
	}
	loaded := newScripts(epoch, s.o.Scripts)
	if err := s.upload(ctx, loaded); err != nil {
		return false, err
	}
	// The server may have been replaced between the two calls.
	if again, err := s.readID(ctx); err != nil || again != epoch {
		return false, cmp.Or(err, errReplaced)
	}
	old := s.scripts.Swap(loaded)
	return old == nil || old.epoch != epoch, nil
}

var errReplaced = errors.New("redis was replaced by another server")

// readID returns a number that every start of a server has for itself. In a cluster it stands for all
// servers.
func (s *Server) readID(ctx context.Context) (int64, error) {
	var ids []string
	for _, client := range (*s.client.Load()).Nodes() {
		text, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
		if err != nil {
			return 0, err
		}
		_, id, ok := strings.Cut(text, "run_id:")
		if id, _, _ = strings.Cut(id, "\r\n"); !ok || id == "" {
			return 0, errors.New("redis does not say its run_id; allow the command INFO")
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	sum := sha256.Sum256([]byte(strings.Join(ids, " ")))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 12), nil // numbers in Lua are exact up to 2^53
}

// upload loads the scripts into every server, so that calls can name them by hash.
func (s *Server) upload(ctx context.Context, loaded *scripts) error {
	for _, client := range (*s.client.Load()).Nodes() {
		var cmds []rueidis.Completed
		for _, one := range loaded.all {
			cmds = append(cmds, client.B().ScriptLoad().Script(one.text).Build())
		}
		for _, resp := range client.DoMulti(ctx, cmds...) {
			if err := resp.Error(); err != nil {
				return err
			}
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

// Client returns the client; nil: Redis was not reached yet.
func (s *Server) Client() rueidis.Client {
	if client := s.client.Load(); client != nil {
		return *client
	}
	return nil
}

// Lost reports whether the server is lost. Requests should not call it then.
func (s *Server) Lost() bool { return s.breaker.lost.Load() }

// Opened receives a value when the server is lost.
func (s *Server) Opened() <-chan struct{} { return s.breaker.opened }

// Lose declares the server lost.
func (s *Server) Lose(err error) {
	s.breaker.trip()
	s.o.Lost(err)
}

// Found ends the loss.
func (s *Server) Found() { s.breaker.close() }

// record updates lastReply and the breaker with the result of a call.
func (s *Server) record(err error) {
	if _, answered := rueidis.IsRedisErr(err); answered || err == nil {
		s.lastReply.Store(s.uptime())
	}
	if s.breaker.record(err != nil, isConnError(err)) {
		s.o.Lost(err)
	}
}

// Close closes the connections.
func (s *Server) Close() {
	if client := s.client.Load(); client != nil {
		(*client).Close()
	}
}
