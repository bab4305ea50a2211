package relay

import "sync"

// maxPins is how many conversations are remembered, in each of two generations.
const maxPins = 32 << 10

// pinKey is one conversation of one caller with one model.
type pinKey struct {
	caller, route string
	talk          uint64
}

// pins remember who has answered a conversation: reasoning that one credential has
// sealed is of no use to another. What was not asked for during a whole generation
// is forgotten.
type pins struct {
	mu         sync.Mutex
	young, old map[pinKey]string
}

func (p *pins) put(key pinKey, target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.young == nil || len(p.young) >= maxPins {
		p.young, p.old = make(map[pinKey]string), p.young
	}
	p.young[key] = target
}

func (p *pins) find(key pinKey) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if target, ok := p.young[key]; ok {
		return target
	}
	return p.old[key]
}
