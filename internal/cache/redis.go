package cache

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	redisWait    = 20 * time.Millisecond  // for an answer that a request waits for
	redisWrite   = 500 * time.Millisecond // for one that nobody waits for
	redisProbe   = 250 * time.Millisecond // between two looks at a Redis that is down
	redisStart   = 250 * time.Millisecond // for the first connection
	redisDial    = time.Second
	redisBuffers = 64 << 10 // of a connection, each way
	redisQueued  = 16 << 20 // bytes that wait to be written
	answerPrefix = "isogloss:answer:"
	oncePrefix   = "isogloss:once:"
)

// errDown says that Redis was not asked, because it did not answer lately.
var errDown = errors.New("cache: redis does not answer")

// claimScript is Claim at the server. What it returns says whose it is: own values
// begin with the key and the token, so that a reply to another request is noticed.
const claimScript = `local v = redis.call('GET', KEYS[1])
if v and string.sub(v, 1, #ARGV[1]) ~= ARGV[1] then return v end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return ARGV[1]`

// RedisOptions are those of a Redis.
type RedisOptions struct {
	URL    string       // redis://, rediss://, unix://
	Logger *slog.Logger // nil: none
}

// Redis keeps values where all nodes find them. While it does not answer it is not
// asked: whoever meets the failure first waits for 20 ms, the others not at all, and
// a probe in the background finds out when it is back.
type Redis struct {
	option rueidis.ClientOption
	claim  *rueidis.Lua
	client atomic.Pointer[rueidis.Client]
	up     atomic.Bool
	log    *slog.Logger
	told   atomic.Int64 // when the log was last told of a failure, in nanoseconds since 1970
	loud   atomic.Bool  // the log waits for the end of it

	puts    chan put
	queued  atomic.Int64
	dropped atomic.Int64
	stop    context.CancelFunc
	done    sync.WaitGroup
	wake    chan struct{} // says that it has failed just now
	first   chan struct{} // closed after the first try
}

type put struct {
	key   Key
	value []byte
	ttl   time.Duration
}

// NewRedis connects in the background. It fails only where the address makes no
// sense, and not because nobody is there. Close it at the end.
func NewRedis(o RedisOptions) (*Redis, error) {
	option, err := rueidis.ParseURL(o.URL)
	if err != nil {
		// What the parser says may hold a part of the password.
		return nil, errors.New("cache: redis.url is not an address; write redis://HOST:PORT/DB, or rediss:// for TLS")
	}
	option.Dialer = net.Dialer{Timeout: redisDial, KeepAlive: time.Second}
	option.ConnWriteTimeout = redisDial
	option.ReadBufferEachConn, option.WriteBufferEachConn = redisBuffers, redisBuffers
	option.DisableRetry, option.DisableCache = true, true
	// A cluster is given by several addresses, as redis://A?addr=B&addr=C. To ask every
	// server whether it is one is a question more that can go unanswered.
	option.ForceSingleClient = len(option.InitAddress) == 1
	// One connection, on which requests do not wait for each other: it is the one that
	// the probe has tried, and a reply that comes too late does not break it.
	option.PipelineMultiplex, option.AlwaysPipelining = -1, true
	option.ClientName = cmp.Or(option.ClientName, "isogloss-cache")
	ctx, cancel := context.WithCancel(context.Background())
	r := &Redis{option: option, claim: rueidis.NewLuaScript(claimScript), log: o.Logger, stop: cancel,
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

// Get returns the value at a key, or nil where there is none or nobody to ask.
func (r *Redis) Get(ctx context.Context, k Key) []byte {
	c := r.ask()
	if c == nil {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, redisWait)
	defer cancel()
	b, err := c.Do(call, c.B().Get().Key(answerPrefix+k.text()).Build()).AsBytes()
	if err != nil {
		r.failed(err)
		return nil
	}
	return b
}

// Put writes a value in the background. Where too much waits already, or Redis is
// down, it is let go.
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

// Claim is that of Records, for all nodes.
func (r *Redis) Claim(ctx context.Context, k Key, c Claim) (there []byte, err error) {
	client := r.ask()
	if client == nil {
		return nil, errDown
	}
	ttl := strconv.FormatInt(max(1, c.TTL.Milliseconds()), 10)
	there, err = r.claim.Exec(ctx, client, []string{oncePrefix + k.text()},
		[]string{rueidis.BinaryString(c.Mine), rueidis.BinaryString(c.Value), ttl}).AsBytes()
	switch {
	case err != nil:
		r.failed(err)
		return nil, err
	case bytes.Equal(there, c.Mine):
		return nil, nil
	}
	return there, nil
}
