package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
)

const (
	redisWrite     = 500 * time.Millisecond // timeout of a write in the background
	redisQueued    = 16 << 20               // maximum bytes that wait to be written
	redisValue     = 1<<20 + 64<<10         // maximum bytes of a value that is read: DefaultMax and the rest
	responsePrefix = "isogloss:answer:"
	oncePrefix     = "isogloss:once:"
	bytesPrefix    = "isogloss:once-bytes:"
)

// redisTenantBytes is how many bytes of responses to idempotent requests a tenant may store
// during the TTL of a record. It holds at most twice as many at a time.
const redisTenantBytes = 64 << 20

// errDown is returned without sending a command while Redis is down.
var errDown = errors.New("cache: redis is down")

// claimScript implements Claim in Redis. Its reply begins with the key and the token of
// the record, so that a reply to another command is detected.
const claimScript = `local v = redis.call('GETRANGE', KEYS[1], 0, ARGV[4])
if v ~= '' and string.sub(v, 1, #ARGV[1]) ~= ARGV[1] then return v end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return ARGV[1]`

// countScript adds to a count that expires, and returns it.
const countScript = `local n = redis.call('INCRBY', KEYS[1], ARGV[1])
if n == tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return n`

// RedisOptions are the options of a Redis.
type RedisOptions struct {
	Client *redis.Client
	Secret []byte // at least 32 bytes, the same on all nodes
}

// Redis is a Store and Locks shared by all nodes. While the server of a key is lost, no command is
// sent to it: the requests that notice wait for the client's timeout, later ones do not wait.
//
// Values end in a MAC, so that whoever can write to Redis cannot forge a response.
type Redis struct {
	keys   keyring
	client *redis.Client
	claim  *rueidis.Lua
	count  *rueidis.Lua

	puts    chan put
	queued  atomic.Int64
	dropped atomic.Int64
	stop    context.CancelFunc
	done    sync.WaitGroup
}

type put struct {
	key   Key
	value []byte
	ttl   time.Duration
}

// NewRedis returns a Redis that uses a client. The caller must close it, and the client afterwards.
func NewRedis(o RedisOptions) (*Redis, error) {
	keys, err := newKeyring(o.Secret)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Redis{keys: keys, client: o.Client, claim: rueidis.NewLuaScript(claimScript), count: rueidis.NewLuaScript(countScript), stop: cancel, puts: make(chan put, 1024)}
	r.done.Go(func() { r.write(ctx) })
	return r, nil
}

// exec sends commands to the server of a key.
func (r *Redis) exec(ctx context.Context, key string, f func(context.Context, rueidis.Client) error) error {
	err := r.client.Server(key).Exec(ctx, f)
	if errors.Is(err, redis.ErrLost) || errors.Is(err, redis.ErrBusy) {
		return fmt.Errorf("%w: %w", errDown, err)
	}
	return err
}

// Get returns the value of a key, or nil if there is none or Redis is down.
func (r *Redis) Get(ctx context.Context, k Key) (value []byte) {
	name := responsePrefix + k.text()
	_ = r.exec(ctx, name, func(ctx context.Context, c rueidis.Client) error { // a failure is a miss
		b, err := c.Do(ctx, c.B().Getrange().Key(name).Start(0).End(redisValue).Build()).AsBytes()
		if err == nil {
			value, _ = r.keys.open(b)
		}
		return err
	})
	return value
}

// Put writes a value in the background. It drops the value if too many bytes wait or
// Redis is down.
func (r *Redis) Put(k Key, value []byte, ttl time.Duration) {
	if r.client.Server(responsePrefix+k.text()).Lost() || r.queued.Load() > redisQueued {
		r.dropped.Add(1)
		return
	}
	select {
	case r.puts <- put{key: k, value: value, ttl: ttl}:
		r.queued.Add(int64(len(value)))
	default:
		r.dropped.Add(1)
	}
}

// write writes the values of Put.
func (r *Redis) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-r.puts:
			r.queued.Add(-int64(len(p.value)))
			if r.writeOne(ctx, p) != nil {
				r.dropped.Add(1)
			}
		}
	}
}

func (r *Redis) writeOne(ctx context.Context, p put) error {
	ctx, cancel := context.WithTimeout(ctx, redisWrite)
	defer cancel()
	name := responsePrefix + p.key.text()
	return r.exec(ctx, name, func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(name).Value(rueidis.BinaryString(r.keys.seal(p.value))).Px(p.ttl).Build()).Error()
	})
}

// Claim implements Locks. It drops the response of a tenant that has stored too many bytes:
// Redis would evict those of all tenants, or refuse to store any. The count has a script of
// its own, because the keys of a script must be on one node of a cluster.
func (r *Redis) Claim(ctx context.Context, k Key, c Claim) (there []byte, err error) {
	ttl := strconv.FormatInt(max(1, c.TTL.Milliseconds()), 10)
	if len(c.Value) > 0 && kind(c.Value[1]) == full {
		enough, err := r.countBytes(ctx, c.Tenant, len(c.Value), ttl)
		if err != nil {
			return nil, err
		}
		if enough {
			c.Value = dropResponse(c.Value)
		}
	}
	name := oncePrefix + k.text()
	err = r.exec(ctx, name, func(ctx context.Context, client rueidis.Client) (err error) {
		there, err = r.claim.Exec(ctx, client, []string{name},
			[]string{rueidis.BinaryString(c.Mine), rueidis.BinaryString(r.keys.seal(c.Value)), ttl, strconv.Itoa(redisValue)}).AsBytes()
		return err
	})
	switch {
	case err != nil && strings.Contains(err.Error(), "WRONGTYPE"): // a list, say, that no node has written
		return nil, errForged
	case err != nil:
		return nil, err
	case bytes.Equal(there, c.Mine):
		return nil, nil
	}
	return r.keys.open(there)
}

// countBytes counts bytes that a tenant stores, and reports whether they are too many.
func (r *Redis) countBytes(ctx context.Context, tenant string, bytes int, ttl string) (enough bool, err error) {
	name := bytesPrefix + tenant
	var stored int64
	err = r.exec(ctx, name, func(ctx context.Context, c rueidis.Client) (err error) {
		stored, err = r.count.Exec(ctx, c, []string{name}, []string{strconv.Itoa(bytes), ttl}).AsInt64()
		return err
	})
	if _, answered := rueidis.IsRedisErr(err); answered { // the count was forged, or Redis is full
		return true, nil
	}
	return stored > redisTenantBytes, err
}

// RedisState is the state of a Redis for metrics.
type RedisState struct {
	Up      bool
	Dropped int64 // responses that were not written
}

// Snapshot returns the current state.
func (r *Redis) Snapshot() RedisState {
	return RedisState{Up: !r.client.Lost(), Dropped: r.dropped.Load()}
}

// Close drops the values that wait to be written.
func (r *Redis) Close() {
	r.stop()
	r.done.Wait()
}
