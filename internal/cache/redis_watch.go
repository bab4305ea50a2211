package cache

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// ask is the connection, or nil while Redis is down.
func (r *Redis) ask() rueidis.Client {
	if !r.up.Load() {
		return nil
	}
	return *r.client.Load()
}

// failed notes that Redis did not answer. An error that it answered with is not that,
// and neither is a client that went away.
func (r *Redis) failed(err error) {
	if rueidis.IsRedisNil(err) || errors.Is(err, context.Canceled) {
		return
	}
	if e, answered := rueidis.IsRedisErr(err); answered && !e.IsLoading() && !e.IsClusterDown() {
		r.log.Debug("redis refuses a command of the cache", "error", err)
		return
	}
	if r.up.CompareAndSwap(true, false) {
		r.complain(err)
		select {
		case r.wake <- struct{}{}: // it may only have been slow
		default:
		}
	}
}

// quiet is how long the log is not told again: a Redis that is slow comes and goes.
const quiet = 10 * time.Second

func (r *Redis) complain(err error) {
	now, last := time.Now().UnixNano(), r.told.Load()
	if now-last < int64(quiet) || !r.told.CompareAndSwap(last, now) {
		return
	}
	r.loud.Store(true)
	r.log.Warn("redis does not answer; the cache is left out until it does", "error", err)
}

// watch connects, and looks after a Redis that is down.
func (r *Redis) watch(ctx context.Context) {
	for first := true; ; first = false {
		if !r.up.Load() && r.probe(ctx) {
			r.up.Store(true)
			if r.loud.Swap(false) {
				r.log.Info("redis answers; the cache is in use")
			}
		}
		if first {
			close(r.first)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-time.After(redisProbe):
		}
	}
}

// probe reports whether Redis answers.
func (r *Redis) probe(ctx context.Context) bool {
	if r.client.Load() == nil {
		c, err := rueidis.NewClient(r.option)
		if err != nil {
			if c != nil {
				c.Close()
			}
			r.log.Debug("redis cannot be reached", "error", err)
			return false
		}
		r.client.Store(&c)
	}
	c := *r.client.Load()
	call, cancel := context.WithTimeout(ctx, redisWrite)
	defer cancel()
	return c.Do(call, c.B().Ping().Build()).Error() == nil
}

// write writes what was put.
func (r *Redis) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-r.puts:
			r.queued.Add(-int64(len(p.value)))
			r.writeOne(ctx, p)
		}
	}
}

func (r *Redis) writeOne(ctx context.Context, p put) {
	c := r.ask()
	if c == nil {
		r.dropped.Add(1)
		return
	}
	call, cancel := context.WithTimeout(ctx, redisWrite)
	defer cancel()
	set := c.B().Set().Key(answerPrefix + p.key.text()).Value(rueidis.BinaryString(p.value)).Px(p.ttl).Build()
	if err := c.Do(call, set).Error(); err != nil {
		r.dropped.Add(1)
		r.failed(err)
	}
}

// RedisState is what there is to know about a Redis.
type RedisState struct {
	Up      bool
	Dropped int64 // answers that were not written
}

// Snapshot is for metrics.
func (r *Redis) Snapshot() RedisState {
	return RedisState{Up: r.up.Load(), Dropped: r.dropped.Load()}
}

// Close lets go of what waits to be written and of the connections.
func (r *Redis) Close() {
	r.up.Store(false)
	r.stop()
	r.done.Wait()
	if c := r.client.Load(); c != nil {
		(*c).Close()
	}
}
