package cache

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// connection returns the connection, or nil while Redis is down.
func (r *Redis) connection() rueidis.Client {
	if !r.up.Load() {
		return nil
	}
	return *r.client.Load()
}

// failed marks Redis as down after a failed command. An error reply and a disconnected
// client do not count.
func (r *Redis) failed(err error) {
	if rueidis.IsRedisNil(err) || errors.Is(err, context.Canceled) {
		return
	}
	if e, answered := rueidis.IsRedisErr(err); answered && !e.IsLoading() && !e.IsClusterDown() {
		r.log.Debug("redis rejects a command of the cache", "error", err)
		return
	}
	if r.up.CompareAndSwap(true, false) {
		r.complain(err)
		select {
		case r.wake <- struct{}{}: // Redis may only have been slow
		default:
		}
	}
}

// logInterval is the minimum time between two log lines, because a slow Redis may change
// between down and up often.
const logInterval = 10 * time.Second

func (r *Redis) complain(err error) {
	now, last := time.Now().UnixNano(), r.logged.Load()
	if now-last < int64(logInterval) || !r.logged.CompareAndSwap(last, now) {
		return
	}
	r.loud.Store(true)
	r.log.Warn("redis is down; the cache is not used until it is up", "error", err)
}

// watch connects, and probes Redis while it is down.
func (r *Redis) watch(ctx context.Context) {
	for first := true; ; first = false {
		if !r.up.Load() && r.probe(ctx) {
			r.up.Store(true)
			if r.loud.Swap(false) {
				r.log.Info("redis is up; the cache is used")
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

// probe reports whether Redis replies.
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

// write writes the values of Put.
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
	c := r.connection()
	if c == nil {
		r.dropped.Add(1)
		return
	}
	call, cancel := context.WithTimeout(ctx, redisWrite)
	defer cancel()
	set := c.B().Set().Key(responsePrefix + p.key.text()).Value(rueidis.BinaryString(r.keys.seal(p.value))).Px(p.ttl).Build()
	if err := c.Do(call, set).Error(); err != nil {
		r.dropped.Add(1)
		r.failed(err)
	}
}

// RedisState is the state of a Redis for metrics.
type RedisState struct {
	Up      bool
	Dropped int64 // responses that were not written
}

// Snapshot returns the current state.
func (r *Redis) Snapshot() RedisState {
	return RedisState{Up: r.up.Load(), Dropped: r.dropped.Load()}
}

// Close drops the values that wait to be written and closes the connection.
func (r *Redis) Close() {
	r.up.Store(false)
	r.stop()
	r.done.Wait()
	if c := r.client.Load(); c != nil {
		(*c).Close()
	}
}
