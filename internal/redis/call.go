package redis

import (
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

// Do makes a call while a request waits. It gives up when Redis has not replied to any call for the
// timeout. Replies arrive in order, so as long as others arrive this one will too; continuing without
// a Redis that is only slow could overdraw a budget.
func (s *Server) Do(c *Call) ([]int64, error) {
	select {
	case s.inFlight <- struct{}{}:
		defer func() { <-s.inFlight }()
	default:
		return nil, ErrBusy
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := s.watchStall(cancel)
	defer w.stop()
	r := s.Send(ctx, []Call{*c})[0]
	return r.Values, r.Err
}

// Send makes calls in one round trip, which counts as one result. It does not watch for a stall.
func (s *Server) Send(ctx context.Context, calls []Call) []Result {
	all := make([]Result, len(calls))
	client, scripts := s.client.Load(), s.scripts.Load()
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
		return reply.IsNoScript() || strings.HasPrefix(reply.Error(), "READONLY")
	}
	return err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}
