package balance

import "math/rand/v2"

// workload is the set of conversations that every policy replays.
type workload struct {
	systems       []int // tokens of each system prompt
	conversations []conversation
	end           float64 // when the last conversation starts, in seconds
}

type conversation struct {
	system int
	start  float64
	turns  []turn
}

type turn struct {
	user, answer int     // tokens
	think        float64 // seconds before the next turn
}

// shape holds the parameters of a workload.
type shape struct {
	conversations int
	rate          float64 // conversations that start per second
	systems       int
	popularity    float64 // Zipf's exponent of the system prompts
	length        float64 // Zipf's exponent of the number of turns, of 60 at most
}

// chat has conversations of nine turns on average, some of sixty.
func chat() shape {
	return shape{conversations: 3000, rate: 3, systems: 40, popularity: 1.1, length: 1.8}
}

// jobs has many system prompts and rarely a second turn.
func jobs() shape {
	return shape{conversations: 10_000, rate: 20, systems: 500, popularity: 1.05, length: 8}
}

func (sh shape) make(seed uint64) workload {
	r := rand.New(rand.NewPCG(seed, 1))
	var w workload
	for range sh.systems {
		w.systems = append(w.systems, blockTokens*(10+r.IntN(250))) // 160 to 4000 tokens
	}
	popular := rand.NewZipf(r, sh.popularity, 1, uint64(sh.systems-1))
	further := rand.NewZipf(r, sh.length, 4, 59)
	for range sh.conversations {
		w.end += r.ExpFloat64() / sh.rate
		c := conversation{system: int(popular.Uint64()), start: w.end}
		for range 1 + further.Uint64() {
			c.turns = append(c.turns, makeTurn(r))
		}
		w.conversations = append(w.conversations, c)
	}
	return w
}

func makeTurn(r *rand.Rand) turn {
	t := turn{user: 20 + int(150*r.ExpFloat64()), answer: 20 + int(200*r.ExpFloat64()), think: 2 + 18*r.ExpFloat64()}
	if r.IntN(8) == 0 {
		t.user += r.IntN(3000) // a file, a page, a tool's result
	}
	return t
}

// workingSet returns the average number of tokens of the open conversations, with one
// copy of each system prompt.
func (w workload) workingSet() int {
	area, all := 0.0, 0
	for _, c := range w.conversations {
		tokens := 0
		for _, t := range c.turns {
			tokens += t.user + t.answer
			area += float64(tokens) * (decodeTime*float64(t.answer) + t.think)
		}
	}
	for _, s := range w.systems {
		all += s
	}
	return all + int(area/w.end)
}

// sharedKey and ownKey return the hashes that AppendPrefixes would.
func (w workload) sharedKey(conv int) uint64 { return mix(uint64(w.conversations[conv].system)) }
func (w workload) ownKey(conv int) uint64    { return mix(1<<32 + uint64(conv)) }
