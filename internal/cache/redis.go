package cache

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/resp"
)

const (
	redisWait      = 20 * time.Millisecond  // timeout of a command that a request waits for
	redisWrite     = 500 * time.Millisecond // timeout of a command in the background
	redisProbe     = 250 * time.Millisecond // between two probes of a Redis that is down
	redisStart     = 250 * time.Millisecond // timeout of the first connection
	redisDial      = time.Second
	redisBuffers   = 64 << 10       // of a connection, in each direction
	redisQueued    = 16 << 20       // maximum bytes that wait to be written
	redisValue     = 1<<20 + 64<<10 // maximum bytes of a value that is read: DefaultMax and the rest
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
	URL    string       // redis://, rediss://, unix://
	Secret []byte       // at least 32 bytes, the same on all nodes
	Logger *slog.Logger // nil: none
}

// Redis is a Store and Locks shared by all nodes. While Redis is down no command is sent:
// the request that detects the failure waits for 20 ms, later requests do not wait, and a
// background probe detects the recovery.
//
// Values end in a MAC, so that whoever can write to Redis cannot forge a response.
type Redis struct {
	keys   keyring
	option rueidis.ClientOption
	claim  *rueidis.Lua
	count  *rueidis.Lua
	client atomic.Pointer[rueidis.Client]
	up     atomic.Bool
	log    *slog.Logger
	logged atomic.Int64 // time of the last logged failure, in nanoseconds since 1970
	loud   atomic.Bool  // the recovery is to be logged

	puts    chan put
	queued  atomic.Int64
	dropped atomic.Int64
	stop    context.CancelFunc
	done    sync.WaitGroup
	wake    chan struct{} // wakes the probe after a failure
	first   chan struct{} // closed after the first probe
}

type put struct {
	key   Key
	value []byte
	ttl   time.Duration
}

// NewRedis connects in the background. It fails only for an invalid address, not if Redis
// is down. The caller must close it.
func NewRedis(o RedisOptions) (*Redis, error) {
	option, err := rueidis.ParseURL(o.URL)
	if err != nil {
		// The parser's message may contain a part of the password.
		return nil, errors.New("cache: redis.url is not an address; write redis://HOST:PORT/DB, or rediss:// for TLS")
	}
	keys, err := newKeyring(o.Secret)
	if err != nil {
		return nil, err
	}
	resp.Guard(&option)
	option.Dialer = net.Dialer{Timeout: redisDial, KeepAlive: time.Second}
	option.ConnWriteTimeout = redisDial
	option.ReadBufferEachConn, option.WriteBufferEachConn = redisBuffers, redisBuffers
	option.DisableRetry, option.DisableCache = true, true
	// A cluster has several addresses, as in redis://A?addr=B&addr=C. Detecting one would
	// be a further command that can time out.
	option.ForceSingleClient = len(option.InitAddress) == 1
	// One pipelined connection: the probe checks the connection that commands use, and a
	// late reply does not break it.
	option.PipelineMultiplex, option.AlwaysPipelining = -1, true
	option.ClientName = cmp.Or(option.ClientName, "isogloss-cache")
	ctx, cancel := context.WithCancel(context.Background())
	r := &Redis{keys: keys, option: option, claim: rueidis.NewLuaScript(claimScript), count: rueidis.NewLuaScript(countScript), log: o.Logger, stop: cancel,
		puts: make(chan put, 1024), wake: make(chan struct{}, 1), first: make(chan struct{})}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.done.Go(func() { r.watch(ctx) })
	r.done.Go(func() { r.write(ctx) })
	select {
	case <-r.first:
	case <-time.After(redisStart):
	}
	if !r.up.Load() {
		r.complain(errDown)
	}
	return r, nil
}

// Get returns the value of a key, or nil if there is none or Redis is down.
func (r *Redis) Get(ctx context.Context, k Key) []byte {
	c := r.connection()
	if c == nil {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, redisWait)
	defer cancel()
	b, err := c.Do(call, c.B().Getrange().Key(responsePrefix+k.text()).Start(0).End(redisValue).Build()).AsBytes()
	if err != nil {
		r.failed(err)
		return nil
	}
	value, _ := r.keys.open(b)
	return value
}

// Put writes a value in the background. It drops the value if too many bytes wait or
// Redis is down.
func (r *Redis) Put(k Key, value []byte, ttl time.Duration) {
	if !r.up.Load() || r.queued.Load() > redisQueued {
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

// Claim implements Locks. It drops the response of a tenant that has stored too many bytes:
// Redis would evict those of all tenants, or refuse to store any. The count has a script of
// its own, because the keys of a script must be on one node of a cluster.
func (r *Redis) Claim(ctx context.Context, k Key, c Claim) (there []byte, err error) {
	client := r.connection()
	if client == nil {
		return nil, errDown
	}
	ttl := strconv.FormatInt(max(1, c.TTL.Milliseconds()), 10)
	if len(c.Value) > 0 && kind(c.Value[1]) == full {
		stored, err := r.count.Exec(ctx, client, []string{bytesPrefix + c.Tenant}, []string{strconv.Itoa(len(c.Value)), ttl}).AsInt64()
		_, answered := rueidis.IsRedisErr(err)
		if err != nil && !answered {
			r.failed(err)
			return nil, err
		}
		if answered || stored > redisTenantBytes { // an error reply: the count was forged, or Redis is full
			c.Value = dropResponse(c.Value)
		}
	}
	there, err = r.claim.Exec(ctx, client, []string{oncePrefix + k.text()},
		[]string{rueidis.BinaryString(c.Mine), rueidis.BinaryString(r.keys.seal(c.Value)), ttl, strconv.Itoa(redisValue)}).AsBytes()
	switch {
	case err != nil && strings.Contains(err.Error(), "WRONGTYPE"): // a list, say, that no node has written
		return nil, errForged
	case err != nil:
		r.failed(err)
		return nil, err
	case bytes.Equal(there, c.Mine):
		return nil, nil
	}
	return r.keys.open(there)
}
