package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// do sends a command as the attacker.
func (s *stores) do(ctx context.Context, words ...string) rueidis.RedisResult {
	return s.client.Do(ctx, s.client.B().Arbitrary(words...).Build())
}

// redisKeys returns the names of the keys that contain a text. Requests create them, unless the
// gateway does without Redis after the attack before.
func (r *rig) redisKeys(ctx context.Context, text string) []string {
	var keys []string
	testrig.NoError(testrig.Until(ctx, storeRecover, "Redis has no key "+text, func() bool {
		r.ask(ctx, "payer")
		r.send(ctx, deterministic("full"))
		r.send(ctx, idempotent("full"))
		testrig.Pause(ctx, 100*time.Millisecond) // some are written after the response
		keys, _ = r.stores.do(ctx, "KEYS", "*"+text).AsStrSlice()
		return len(keys) > 0
	}))
	return keys
}

// deterministic is a request whose response is cached.
func deterministic(key string) request {
	q := generate("chat", testrig.Chat, "chat").request(key)
	q.body = last(q.body, `"temperature":0`)
	return q
}

// idempotent is a request whose response is stored.
func idempotent(key string) request {
	q := generate("chat", testrig.Chat, "chat").request(key)
	q.headers = []string{"Idempotency-Key", "redteam-1"}
	return q
}

// redisValues are values that no script of the gateway writes. They replace every key.
func redisValues() map[string][]string {
	account := func(n float64) string {
		b := strings.Builder{}
		for range 15 {
			bits := math.Float64bits(n)
			for range 8 {
				b.WriteByte(byte(bits))
				bits >>= 8
			}
		}
		return b.String()
	}
	return map[string][]string{
		"list": {"LPUSH", "KEY", "x"}, "set": {"SADD", "KEY", "x"}, "hash": {"HSET", "KEY", "x", "y"}, "zset": {"ZADD", "KEY", "nan-free", "1"}, "stream": {"XADD", "KEY", "*", "x", "y"},
		"empty": {"SET", "KEY", ""}, "byte": {"SET", "KEY", "x"}, "text": {"SET", "KEY", strings.Repeat("x", 400)}, "64MB": {"SETRANGE", "KEY", "67108864", "x"}, "number": {"SET", "KEY", "-9223372036854775808"},
		"nan": {"SET", "KEY", account(math.NaN())}, "infinite": {"SET", "KEY", account(math.Inf(1))}, "minus-infinite": {"SET", "KEY", account(math.Inf(-1))}, "huge": {"SET", "KEY", account(1e308)}, "negative": {"SET", "KEY", account(-1e15)},
	}
}

func redisAttacks() (all []attack) {
	for name, command := range redisValues() {
		if name == "zset" {
			command = []string{"ZADD", "KEY", "1", "x"}
		}
		all = append(all, onStore("redis/value/"+name, func(ctx context.Context, r *rig, e *evidence) {
			for _, pattern := range []string{"a:key:*", "a:key:*:n", "a:key:*:b", "a:key:*:l", "quota2:{members}:*", "isogloss:answer:*", "isogloss:once:*"} {
				keys, _ := r.stores.do(ctx, "KEYS", "*"+strings.TrimPrefix(pattern, "*")).AsStrSlice()
				for _, key := range keys[:min(len(keys), 3)] {
					words := append([]string{"EVAL", `redis.call('DEL', KEYS[1]) return redis.call(unpack(ARGV))`, "1", key}, command...)
					words[5] = key // the gateway may write it too
					testrig.NoError(r.stores.do(ctx, words...).Error())
				}
			}
			defer r.stores.do(ctx, "FLUSHALL")
			for range 4 {
				r.answers(ctx, e, "payer", 200, 402, 429, 503)
				r.answers(ctx, e, "full", 200)
			}
			for _, q := range []request{deterministic("full"), idempotent("full")} {
				got := r.send(ctx, q)
				e.problem(got.status != 200 && got.status != 503 && got.status != 409, "status %d", got.status)
			}
		}))
	}
	all = append(all, forgedResponses()...)
	all = append(all, slowRedis()...)
	return append(all, hostileRedis()...)
}

// forgedResponses change stored responses in Redis. The gateway must not deliver them.
func forgedResponses() (all []attack) {
	for what, kind := range map[string]struct {
		pattern string
		request func(string) request
	}{"cached": {"isogloss:answer:*", deterministic}, "idempotent": {"isogloss:once:*", idempotent}} {
		for name, change := range map[string]func(string) string{
			"text":   func(v string) string { return strings.ReplaceAll(v, "assistant", "fabricate") },
			"header": func(v string) string { return strings.ReplaceAll(v, "application/json", "a\r\nX-Forged: 1\r\n") },
			"status": func(v string) string { return strings.Replace(v, "\x00\xc8\x00", "\x00\x64\x00", 1) },
			"longer": func(v string) string { return v + strings.Repeat("fabricate", 200_000) },
			"cut":    func(v string) string { return v[:len(v)-1] },
			"key": func(v string) string {
				b := []byte(v)
				b[10] ^= 1
				return string(b)
			},
			"time": func(v string) string {
				b := []byte(v)
				b[84] ^= 0x7f
				return string(b)
			},
		} {
			all = append(all, onStore("redis/"+what+"/"+name, func(ctx context.Context, r *rig, e *evidence) {
				defer r.stores.do(ctx, "FLUSHALL")
				for _, key := range r.redisKeys(ctx, kind.pattern) {
					old, err := r.stores.do(ctx, "GET", key).ToString()
					testrig.NoError(err)
					changed := change(old)
					e.problem(changed == old, "the value has nothing to change")
					testrig.NoError(r.stores.do(ctx, "SET", key, changed, "KEEPTTL").Error())
				}
				got := r.send(ctx, kind.request("full"))
				e.got, e.status = got.got, got.status
				e.problem(strings.Contains(got.got, "fabricate") || strings.Contains(got.got, "X-Forged"), "a forged response is delivered")
				e.problem(got.status < 200 || got.header.Get("Age") != "" && name != "cut" && what == "cached", "status %d, age %q: the forged value is used", got.status, got.header.Get("Age"))
				e.problem(what == "idempotent" && got.status != 503 && got.status != 409 && got.status != 422, "status %d for a record that no gateway wrote", got.status)
			}))
		}
	}
	swap := onStore("redis/cached/other-tenant", func(ctx context.Context, r *rig, e *evidence) {
		defer r.stores.do(ctx, "FLUSHALL")
		testrig.NoError(r.stores.do(ctx, "FLUSHALL").Error())
		r.script("m", serial)
		defer r.script("m", nil)
		mine := r.send(ctx, deterministic("full"))
		var key string
		testrig.NoError(testrig.Until(ctx, storeRecover, "nothing is cached", func() bool {
			keys, _ := r.stores.do(ctx, "KEYS", "isogloss:answer:*").AsStrSlice()
			key = strings.Join(keys, "")
			return len(keys) == 1
		}))
		value, err := r.stores.do(ctx, "GET", key).ToString()
		testrig.NoError(err)
		r.send(ctx, deterministic("foreign"))
		testrig.NoError(testrig.Until(ctx, storeRecover, "the other is not cached", func() bool {
			keys, _ := r.stores.do(ctx, "KEYS", "isogloss:answer:*").AsStrSlice()
			for _, k := range keys {
				testrig.NoError(r.stores.do(ctx, "SET", k, value).Error())
			}
			return len(keys) == 2
		}))
		got := r.send(ctx, deterministic("foreign"))
		e.problem(serialOf(mine) == "" || serialOf(got) == serialOf(mine), "an organisation got the response of another")
	})
	return append(all, swap)
}

// slowRedis are a Redis that does not answer for a while.
func slowRedis() []attack {
	during := func(ctx context.Context, r *rig, e *evidence) {
		for range 5 {
			r.answers(ctx, e, "full", 200)
			r.answers(ctx, e, "payer", 200, 402, 429, 503)
			got := r.send(ctx, idempotent("full"))
			e.problem(got.status == 0, "no response to an idempotent request")
		}
	}
	return []attack{
		onStore("redis/slow-script", func(ctx context.Context, r *rig, e *evidence) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				r.stores.do(ctx, "EVAL", "for i = 1, 150000000 do end return 1", "0")
			}()
			during(ctx, r, e)
			<-done
		}),
		onStore("redis/frozen", func(ctx context.Context, r *rig, e *evidence) {
			r.stores.redis.Freeze()
			defer r.stores.redis.Thaw()
			during(ctx, r, e)
		}),
		onStore("redis/full", func(ctx context.Context, r *rig, e *evidence) {
			testrig.NoError(r.stores.do(ctx, "CONFIG", "SET", "maxmemory", "1").Error())
			defer r.stores.do(ctx, "CONFIG", "SET", "maxmemory", "0")
			during(ctx, r, e)
		}),
		onStore("redis/read-only", func(ctx context.Context, r *rig, e *evidence) {
			testrig.NoError(r.stores.do(ctx, "REPLICAOF", "127.0.0.1", "1").Error())
			defer r.stores.do(ctx, "REPLICAOF", "NO", "ONE")
			during(ctx, r, e)
		}),
		onStore("redis/emptied", func(ctx context.Context, r *rig, e *evidence) {
			for range 5 {
				testrig.NoError(r.stores.do(ctx, "FLUSHALL").Error())
				testrig.NoError(r.stores.do(ctx, "SCRIPT", "FLUSH").Error())
				during(ctx, r, e)
			}
		}),
	}
}

// hostileReplies are what a server in the place of Redis sends.
func hostileReplies() map[string]func(net.Conn) {
	text := func(s string) func(net.Conn) { return func(c net.Conn) { _, _ = c.Write([]byte(s)) } }
	return map[string]func(net.Conn){
		"negative-string": text("$-2\r\n"), "largest-string": text("$9223372036854775807\r\n"), "512MB": text("$536870912\r\n"), "negative-array": text("*-2\r\n"), "negative-map": text("%-1\r\n"),
		"largest-array": text("*2147483647\r\n"), "streamed-string": text("$?\r\n"), "streamed-array": text("*?\r\n"), "attribute": text("|1\r\n+a\r\n+b\r\n+OK\r\n"), "push": text(">3\r\n+subscribe\r\n+x\r\n:1\r\n"),
		"unasked": text(strings.Repeat("+OK\r\n", 100)), "http": text("HTTP/1.1 400 Bad Request\r\n\r\n"), "binary": text("\x00\xff\x00\xff\r\n"), "null": text("$-1\r\n"), "error": text("-ERR " + strings.Repeat("x", 10_000) + "\r\n"),
		"integers": text("*5\r\n:1\r\n:99\r\n:99\r\n:-5\r\n:0\r\n"), "short": text("*1\r\n:1\r\n"), "strings": text("*2\r\n$1\r\nx\r\n$1\r\ny\r\n"), "nested": text(strings.Repeat("*1\r\n", 1<<20)),
		"many-replies": func(c net.Conn) { repeat(c, []byte(strings.Repeat(":1\r\n", 10_000))) },
		"512MB-sent": func(c net.Conn) {
			_, _ = c.Write([]byte("$536870912\r\n"))
			repeat(c, make([]byte, 1<<20))
		},
		"endless-line": func(c net.Conn) { _, _ = c.Write([]byte("+")); repeat(c, []byte(strings.Repeat("x", 1<<16))) },
		"endless-array": func(c net.Conn) {
			_, _ = c.Write([]byte("*2000000000\r\n"))
			repeat(c, []byte(strings.Repeat(":1\r\n", 10_000)))
		},
		"drip": func(c net.Conn) {
			for _, b := range []byte(strings.Repeat("$100\r\n", 1000)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		},
	}
}

// hostileRedis puts a hostile server in the place of Redis. It misbehaves from the first byte,
// or at the first script after a correct start of the connection.
func hostileRedis() (all []attack) {
	for name, say := range hostileReplies() {
		for _, when := range []string{"at-once", "later"} {
			all = append(all, onStore(fmt.Sprintf("redis/server/%s/%s", name, when), func(ctx context.Context, r *rig, e *evidence) {
				f := r.stores.toRedis
				f.use(func(c net.Conn) {
					if when == "later" {
						f.forward(c, func(sent string) bool {
							call := strings.Contains(sent, "EVALSHA") || strings.Contains(sent, "GETRANGE") || strings.Contains(sent, "EVAL")
							if call {
								say(c)
							}
							return call
						})
						return
					}
					buf := make([]byte, 64<<10)
					for _, err := c.Read(buf); err == nil; _, err = c.Read(buf) {
						say(c)
					}
				})
				defer f.use(nil)
				for range 3 {
					r.answers(ctx, e, "payer", 200, 402, 429, 503)
					r.answers(ctx, e, "full", 200)
					got := r.send(ctx, deterministic("full"))
					e.problem(got.status != 200, "a deterministic request gives %d", got.status)
					testrig.Pause(ctx, 100*time.Millisecond)
				}
			}))
		}
	}
	return all
}
