package balance

import (
	"container/heap"
	"container/list"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	blockTokens = 16
	prefillRate = 20_000 // tokens a second
	decodeTime  = 0.03   // seconds a token
)

// engine runs one prefill after the other and generates in parallel.
type engine struct {
	id       string
	cache    prefixCache
	free     float64 // when the prefill is free again
	inFlight []int   // by gateway

	requests int     // in the phase
	area     float64 // requests in flight over time, in the phase
	changed  float64
}

func (e *engine) advance(now float64) {
	for _, n := range e.inFlight {
		e.area += float64(n) * (now - e.changed)
	}
	e.changed = now
}

// chain is a sequence of blocks that is always used from its beginning: a system prompt,
// or the turns of a conversation after it.
type chain struct{ id, blocks int }

// prefixCache is an LRU of blocks. The blocks of a chain are used together and freed from
// the end, so the cache stores the chains in order of their last use, with their lengths.
type prefixCache struct {
	room, used int // blocks
	chains     map[int]*list.Element
	order      *list.List // most recently used first
}

func newPrefixCache(tokens int) prefixCache {
	return prefixCache{room: tokens / blockTokens, chains: map[int]*list.Element{}, order: list.New()}
}

// hit returns how many blocks of a prompt are cached.
func (c *prefixCache) hit(prompt []chain) int {
	n := 0
	for _, p := range prompt {
		e, ok := c.chains[p.id]
		if !ok {
			break
		}
		have := min(e.Value.(*chain).blocks, p.blocks)
		n += have
		if have < p.blocks {
			break
		}
	}
	return n
}

// put marks the blocks of a prompt as used; its last blocks are freed first.
func (c *prefixCache) put(prompt []chain) {
	for i := len(prompt) - 1; i >= 0; i-- {
		p := prompt[i]
		e, ok := c.chains[p.id]
		if !ok {
			e = c.order.PushFront(&chain{id: p.id})
			c.chains[p.id] = e
		}
		c.order.MoveToFront(e)
		if have := e.Value.(*chain); have.blocks < p.blocks {
			c.used += p.blocks - have.blocks
			have.blocks = p.blocks
		}
	}
	for c.used > c.room {
		last := c.order.Back()
		victim := last.Value.(*chain)
		n := min(c.used-c.room, victim.blocks)
		victim.blocks -= n
		c.used -= n
		if victim.blocks == 0 {
			c.order.Remove(last)
			delete(c.chains, victim.id)
		}
	}
}

// event is the arrival or the end of a turn, or another event.
type event struct {
	at         float64
	seq        int
	conv, turn int
	done       *engine
	gateway    int
	happen     func()
}

type events []event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// simulation replays a workload. The gateways share no state: each knows only its own
// requests, and the turns of a conversation reach any of them.
type simulation struct {
	workload
	room     int // size of an engine's cache in tokens
	engines  []*engine
	gateways []gateway
	pick     func(s *simulation, gateway, conv int) int
	rand     *rand.Rand

	queue   events
	seq     int
	now     float64
	phase   float64   // start of the phase
	history []int     // tokens of each conversation so far, without its system prompt
	last    []*engine // the engine that last served each conversation
	result  result
}

type gateway struct {
	turn    int // position of round-robin
	choices []Choice
	history *History
}

func newSimulation(w workload, room, gateways int, pick func(s *simulation, gateway, conv int) int) *simulation {
	s := &simulation{
		workload: w, room: room, gateways: make([]gateway, gateways), pick: pick, rand: rand.New(rand.NewPCG(7, 7)),
		history: make([]int, len(w.conversations)), last: make([]*engine, len(w.conversations)),
	}
	for i := range s.gateways {
		s.gateways[i].history = &History{}
	}
	for i := range 8 {
		s.add(fmt.Sprintf("pool/engine-%d", i))
	}
	s.know()
	for i, c := range w.conversations {
		s.push(event{at: c.start, conv: i})
	}
	// Measures the steady state, without the time in which the caches fill and the last
	// conversations end.
	s.push(event{at: w.end / 8, happen: s.beginPhase})
	s.push(event{at: w.end, happen: s.endPhase})
	return s
}

func (s *simulation) push(e event) {
	s.seq++
	e.seq = s.seq
	heap.Push(&s.queue, e)
}

func (s *simulation) run() result {
	for s.queue.Len() > 0 {
		e := heap.Pop(&s.queue).(event)
		s.now = e.at
		switch {
		case e.happen != nil:
			e.happen()
		case e.done != nil:
			s.finish(e)
		default:
			s.arrive(e)
		}
	}
	return s.result
}

func (s *simulation) arrive(ev event) {
	gw := s.rand.IntN(len(s.gateways))
	e := s.engines[s.pick(s, gw, ev.conv)]
	c := &s.conversations[ev.conv]
	s.history[ev.conv] += c.turns[ev.turn].user
	tokens := s.systems[c.system] + s.history[ev.conv]
	hit := e.cache.hit(s.prompt(ev.conv)) * blockTokens
	e.cache.put(s.prompt(ev.conv))
	s.gateways[gw].history.Seen(e.id, s.session(gw, ev.conv), tokens, hit)
	s.result.count(tokens, hit, s.last[ev.conv], e)
	s.last[ev.conv] = e
	e.advance(s.now)
	e.inFlight[gw]++
	e.requests++
	e.free = max(e.free, s.now) + float64(tokens-hit)/prefillRate
	s.push(event{at: e.free + decodeTime*float64(c.turns[ev.turn].answer), conv: ev.conv, turn: ev.turn, done: e, gateway: gw})
}

func (s *simulation) finish(ev event) {
	ev.done.advance(s.now)
	ev.done.inFlight[ev.gateway]--
	t := s.conversations[ev.conv].turns
	s.history[ev.conv] += t[ev.turn].answer
	ev.done.cache.put(s.prompt(ev.conv))
	if ev.turn+1 < len(t) {
		s.push(event{at: s.now + t[ev.turn].think, conv: ev.conv, turn: ev.turn + 1})
	}
}

func (s *simulation) prompt(conv int) []chain {
	system := s.conversations[conv].system
	return []chain{{-1 - system, s.systems[system] / blockTokens}, {conv, s.history[conv] / blockTokens}}
}

func (s *simulation) session(gw, conv int) Session {
	return Session{Prefixes: []uint64{s.sharedKey(conv), s.ownKey(conv)}, History: s.gateways[gw].history, Random: s.rand.Uint64}
}

// know sets the engines that the gateways know.
func (s *simulation) know() {
	for gw := range s.gateways {
		choices := make([]Choice, len(s.engines))
		for i, e := range s.engines {
			choices[i] = Choice{ID: e.id, Load: view{e, gw}}
		}
		s.gateways[gw].choices = choices
	}
}

// view is an engine as one gateway sees it.
type view struct {
	*engine
	gateway int
}

func (v view) InFlight() int             { return v.inFlight[v.gateway] }
func (v view) FirstToken() time.Duration { return 0 }
func (v view) Warmth() float64           { return 1 }
