package redis

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // Redis identifies scripts by SHA-1
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// script is a Lua script that Redis runs atomically.
type script struct{ text, sha string }

// scripts are the scripts for one server. They contain its id, so that another server does not have
// them and rejects every call until its id is read.
type scripts struct {
	epoch int64
	all   []script
}

func newScripts(epoch int64, texts []string) *scripts {
	s := &scripts{epoch: epoch}
	for _, text := range texts {
		text = "local epoch = " + strconv.FormatInt(epoch, 10) + "\n" + text
		sum := sha1.Sum([]byte(text)) //nolint:gosec // Redis identifies scripts by SHA-1
		s.all = append(s.all, script{text, hex.EncodeToString(sum[:])})
	}
	return s
}

// Call is a script with its keys and arguments.
type Call struct {
	Script int // index in Options.Scripts
	Keys   []string
	Args   []string
}

// Arg appends numbers to the arguments.
func (c *Call) Arg(values ...int64) {
	for _, v := range values {
		c.Args = append(c.Args, strconv.FormatInt(v, 10))
	}
}

func (c *Call) build(client rueidis.Client, s *scripts) rueidis.Completed {
	return client.B().Evalsha().Sha1(s.all[c.Script].sha).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build()
}

// Result is the reply to a call.
type Result struct {
	Values []int64
	Err    error
}

// ErrBusy is returned for a call that was not sent.
var ErrBusy = errors.New("too many calls are on the way to Redis, or it was not reached yet")

// ErrLost is returned by Exec while the server is lost. Nothing was sent.
var ErrLost = errors.New("redis is lost")

// Do makes a call while a request waits. It gives up when Redis has not replied to any call for the
// timeout. Replies arrive in order, so as long as others arrive this one will too; continuing without
// a Redis that is only slow could overdraw a budget.
func (s *Server) Do(c *Call) (values []int64, err error) {
	busy := s.wait(context.Background(), func(ctx context.Context) {
		r := s.Send(ctx, []Call{*c})[0]
		values, err = r.Values, r.Err
	})
	return values, cmp.Or(busy, err)
}

// Exec calls f, which sends commands, while a request waits. It gives up like Do. An error reply to a
// command counts as a reply.
func (s *Server) Exec(ctx context.Context, f func(context.Context, rueidis.Client) error) (err error) {
	conn := s.conn.Load()
	if conn == nil || s.Lost() {
		return ErrLost
	}
	busy := s.wait(ctx, func(call context.Context) {
		err = f(call, *conn)
		reply, answered := rueidis.IsRedisErr(err)
		switch {
		case answered && !isDown(reply):
			s.record(nil)
			s.checkMoved(err)
		case ctx.Err() == nil: // otherwise the client has left
			s.record(err)
		}
	})
	return cmp.Or(busy, err)
}

// wait calls f and cancels its context when Redis has not replied to any call for the timeout.
func (s *Server) wait(ctx context.Context, f func(context.Context)) error {
	select {
	case s.inFlight <- struct{}{}:
		defer func() { <-s.inFlight }()
	default:
		return ErrBusy
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := s.watchStall(cancel)
	defer w.stop()
	f(ctx)
	return nil
}

// Send makes calls in one round trip, which counts as one result. It does not watch for a stall.
func (s *Server) Send(ctx context.Context, calls []Call) []Result {
	all := make([]Result, len(calls))
	client, scripts := s.conn.Load(), s.scripts.Load()
	if client == nil || scripts == nil {
		for i := range all {
			all[i].Err = ErrBusy
		}
		return all
	}
	var failed error
	if len(calls) == 1 {
		all[0].Values, all[0].Err = (*client).Do(ctx, calls[0].build(*client, scripts)).AsIntSlice()
		failed = all[0].Err
	} else {
		cmds := make([]rueidis.Completed, len(calls))
		for i := range calls {
			cmds[i] = calls[i].build(*client, scripts)
		}
		for i, resp := range (*client).DoMulti(ctx, cmds...) {
			if all[i].Values, all[i].Err = resp.AsIntSlice(); all[i].Err != nil {
				failed = all[i].Err
			}
		}
	}
	if len(calls) > 0 {
		s.record(failed)
	}
	return all
}

// isConnError reports whether the connection is broken or leads to another server, as opposed to a
// missing reply or an error reply.
func isConnError(err error) bool {
	if reply, ok := rueidis.IsRedisErr(err); ok {
		return reply.IsNoScript() || isReadOnly(reply)
	}
	return err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// isDown reports whether an error reply says that the server cannot serve any command.
func isDown(reply *rueidis.RedisError) bool {
	return reply.IsLoading() || reply.IsClusterDown() || isReadOnly(reply) || strings.HasPrefix(reply.Error(), "MASTERDOWN")
}

// isReadOnly reports whether the server has become a replica.
func isReadOnly(reply *rueidis.RedisError) bool { return strings.HasPrefix(reply.Error(), "READONLY") }

// checkMoved asks for the masters again if another server has the key of a call. It reports whether that
// is the error: the server itself works.
func (s *Server) checkMoved(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	_, moved := reply.IsMoved()
	_, ask := reply.IsAsk()
	if moved || ask {
		s.client.markStale()
	}
	return moved || ask || reply.IsTryAgain()
}
