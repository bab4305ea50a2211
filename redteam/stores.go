package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the attacker's own connection
	"github.com/redis/rueidis"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// stores are real stores and the attacker's access to them. The gateway reaches PostgreSQL
// and Redis through fronts, which can answer in their place.
type stores struct {
	dir             string
	postgres, redis *storetest.Server
	etcd            *storetest.Server
	sql             *sql.DB
	client          rueidis.Client
	keys            *clientv3.Client
	toPostgres      *front
	toRedis         *front
	allowed         float64 // memory that the attack may use besides storeMemory
	dark            bool    // the key beacon may use no model
}

// Limits of every attack on a store.
const (
	storeMemory  = 384 << 20       // growth of the gateway's memory
	storeTime    = 8 * time.Second // of a client's request: see inTime
	storeRecover = 3 * time.Minute // after the attack, far more than it takes
	noStores     = "the weak gateway has no stores"
)

// front forwards connections to a store, or lets a script talk to them.
type front struct {
	net.Listener
	target string
	mu     sync.Mutex
	script func(client net.Conn) // nil: forward
	open   map[net.Conn]bool
}

func newFront(target string) *front {
	f := &front{Listener: testrig.Must(net.Listen("tcp", "127.0.0.1:0")), target: target, open: map[net.Conn]bool{}}
	go func() {
		for c, err := f.Accept(); err == nil; c, err = f.Accept() {
			go f.serve(c)
		}
	}()
	return f
}

func (f *front) serve(c net.Conn) {
	f.mu.Lock()
	script := f.script
	f.open[c] = true
	f.mu.Unlock()
	defer func() {
		_ = c.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, c)
	}()
	if script != nil {
		script(c)
		return
	}
	f.forward(c, nil)
}

// forward connects a client to the server and copies both directions. inject, unless it is nil,
// sees the client's bytes first; the connection ends if it returns true.
func (f *front) forward(c net.Conn, inject func(sent string) bool) {
	up, err := net.Dial("tcp", f.target)
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(c, up) // until one side closes
		_ = c.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if err != nil || inject != nil && inject(string(buf[:n])) {
			return
		}
		if _, err := up.Write(buf[:n]); err != nil {
			return
		}
	}
}

// use sets the script and closes all connections, so that new ones meet it.
func (f *front) use(script func(net.Conn)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = script
	for c := range f.open {
		_ = c.Close() // its script ends
	}
}

// storesRig starts the stores and a gateway on them.
func storesRig(ctx context.Context, o options) (r *rig, err error) {
	if o.prove {
		return start(tenantStore)(ctx, o)
	}
	s := &stores{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := testrig.Run(func() { s.start(ctx) }); err != nil {
		return nil, err
	}
	t := newTrap()
	if err := testrig.Run(func() { s.registerForged(ctx, t) }); err != nil {
		return nil, err
	}
	r, err = start(func(r *rig) *config {
		r.stores, r.trap = s, t
		c := priced((&config{keys: standardKeys()}).standard(r.up))
		c.keys = append(c.keys, keySpec{name: "beacon", body: `"org":"a","models":["*"]`},
			keySpec{name: "payer", body: `"org":"a","models":["*"],"limits":{"budget":"1000","window_seconds":0}`})
		for name := range keyRows() {
			c.keys = append(c.keys, keySpec{name: "row-" + name, body: `"org":"a","models":["*"]`})
		}
		pg := strings.Replace(s.postgres.URL, s.postgres.Addr, s.toPostgres.Addr().String(), 1)
		c.top = append([]string{fmt.Sprintf("store: { url: %q, peppers: [%s] }", pg, strings.Repeat("pepper-canary-", 5)), "data: data", fmt.Sprintf("redis: { url: %q }", "redis://"+s.toRedis.Addr().String()+"/0"), "cache: { ttl: 10m }",
			fmt.Sprintf("discover: { etcd: { endpoints: [%q] }, networks: [127.0.0.0/24], models: [\"w-*\", \"chat/*\"], api_key: %s }", s.etcd.URL, workerKey)}, c.top...)
		return c
	})(ctx, o)
	if err != nil {
		return nil, err
	}
	if err = testrig.Run(func() { r.forgeKeys(ctx) }); err != nil {
		r.close()
	}
	return r, err
}

func (s *stores) start(ctx context.Context) {
	s.dir = testrig.Must(os.MkdirTemp("", "redteam-stores-"))
	s.postgres = testrig.Must(storetest.RunPostgres(s.dir))
	s.redis = testrig.Must(storetest.RunRedis(s.dir))
	s.etcd = testrig.Must(storetest.RunEtcd(s.dir))
	s.toPostgres, s.toRedis = newFront(s.postgres.Addr), newFront(s.redis.Addr)
	s.sql = testrig.Must(sql.Open("pgx", s.postgres.URL))
	s.client = testrig.Must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.redis.Addr}, DisableCache: true, ForceSingleClient: true}))
	s.keys = testrig.Must(clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{s.etcd.URL}, DialTimeout: 10 * time.Second}))
}

func (s *stores) close() {
	for _, f := range []*front{s.toPostgres, s.toRedis} {
		if f != nil {
			_ = f.Close() // no new connections
			f.use(nil)
		}
	}
	if s.sql != nil {
		_ = s.sql.Close()
	}
	if s.client != nil {
		s.client.Close()
	}
	if s.keys != nil {
		_ = s.keys.Close()
	}
	for _, server := range []*storetest.Server{s.postgres, s.redis, s.etcd} {
		if server != nil {
			server.Thaw()
			server.Close()
		}
	}
	_ = os.RemoveAll(s.dir)
}

// onStore returns an attack on a store. It must leave the store usable: afterwards a valid
// key is served again.
func onStore(name string, do func(context.Context, *rig, *evidence)) attack {
	return attack{name: "stores/" + name, unproven: noStores, do: func(ctx context.Context, r *rig) *evidence {
		e := &evidence{}
		if r.weak {
			return e
		}
		testrig.NoError(testrig.Until(ctx, storeRecover, "a valid key is not served before the attack", func() bool { return r.ask(ctx, "full").status == 200 && r.ask(ctx, "payer").status == 200 }))
		r.watched(ctx, e, func() { do(ctx, r, e) })
		if r.stores.allowed > 0 { // the collector would let the next attack use as much
			r.stores.allowed = 0
			r.gateway.Kill()
			testrig.NoError(r.gateway.Start(ctx))
		}
		err := testrig.Until(ctx, storeRecover, "a valid key is not served after the attack", func() bool { return r.ask(ctx, "full").status == 200 })
		e.problem(err != nil, "%v", err)
		return e
	}}
}

// watched runs an attack and checks that meanwhile the gateway is live, its memory is
// bounded, and its log has no secret.
func (r *rig) watched(ctx context.Context, e *evidence, do func()) {
	pid := r.gateway.PID()
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600) // resets the peak; without it the peak is older and higher
	before := testrig.ProcessMemory(pid, "VmRSS")
	ended, polled := make(chan struct{}), make(chan string)
	go func() {
		problem := ""
		for {
			began := time.Now()
			live := &evidence{}
			_ = testrig.Run(func() { live = r.send(ctx, request{method: "GET", path: "/live"}) }) // without a response the status is 0
			if live.status != 200 {
				problem = fmt.Sprintf("/live gives %d after %v", live.status, time.Since(began))
			}
			select {
			case <-ended:
				polled <- problem
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	err := testrig.Run(do)
	close(ended)
	problem := <-polled
	e.problem(err != nil, "the attack could not be made: %v", err)
	e.figure(problem != "", "%s", problem)
	grown := testrig.ProcessMemory(pid, "VmHWM") - before
	e.note = fmt.Sprintf("%s memory %+.0f MB", e.note, grown/1e6)
	e.figure(grown > storeMemory+r.stores.allowed, "memory has grown by %.0f MB", grown/1e6)
	log := r.gateway.Log()
	text := log[min(r.searched, len(log)):]
	r.searched = len(log)
	if p := r.findSecrets("the log", text); p != "" {
		e.problems = append(e.problems, p)
	}
	e.problem(strings.Contains(text, "pepper-canary"), "the log has the pepper")
	for name, key := range r.keys {
		e.problem(strings.Contains(text, key), "the log has the key %s", name)
	}
}

// inTime runs a function and reports whether it ended in time: within this time, or at least
// before the gateway had answered as much time's worth of other requests. What delays both is
// the machine.
func (r *rig) inTime(ctx context.Context, most time.Duration, do func()) (ok bool) {
	ended, judged := make(chan struct{}), make(chan bool, 1)
	over := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	go func() {
		if testrig.Until(ctx, most, "", over) == nil {
			judged <- true
			return
		}
		_, soon := r.gateway.Within(ctx, most, over)
		judged <- soon
	}()
	defer func() {
		close(ended)
		ok = <-judged
	}()
	do()
	return false // the deferred function judges
}

// ask sends a small request with a key and checks that it ends in time.
func (r *rig) ask(ctx context.Context, key string, headers ...string) *evidence {
	q := generate("chat", testrig.Chat, "chat").request(key)
	q.headers = headers
	began := time.Now()
	e := &evidence{}
	ok := r.inTime(ctx, storeTime, func() { e = r.send(ctx, q) })
	e.problem(!ok, "a request took %v, and the gateway answered %v's worth of other requests meanwhile", time.Since(began), storeTime)
	e.problem(e.status == 0, "no response")
	return e
}

// answers sends requests of a key during an attack: each has to end in time, with one of
// the statuses.
func (r *rig) answers(ctx context.Context, e *evidence, key string, statuses ...int) *evidence {
	got := r.ask(ctx, key)
	if p := serves(statuses...)(r, got); p != "" {
		got.problem(true, "key %s: %s: %s", key, p, testrig.Clip(got.body, 200))
	}
	e.problems, e.figures, e.status, e.got = append(e.problems, got.problems...), e.figures+got.figures, got.status, got.got
	return got
}

func storeAttacks() (all []attack) {
	all = append(all, postgresAttacks()...)
	all = append(all, redisAttacks()...)
	return append(all, etcdAttacks()...)
}
