package rotation

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
)

// FuzzState checks that any value in the store is a state of bounded size, and that the gateways go on from it: each is
// in it once, no more of them hold slots than the worker has, and the state that they write is read as it was
// written.
func FuzzState(f *testing.F) {
	for _, s := range []string{
		`{"holders":["a"],"queue":["b","c"]}`, `{"holders":["a","b","c"],"queue":null}`, `{"holders":["a","a"]}`, `{"holders":["x"],"queue":["a","x"]}`,
		`{"holders":[""]}`, `{"holders":["\u001b[31m"]}`, `{"queue":["` + strings.Repeat("g", MaxID+1) + `"]}`, `{"HOLDERS":["a"],"holders":["b"]}`,
		`null`, `[]`, `{"holders":{}}`, `{"holders":["gone"],"queue":["b","gone-too","a"]}`, ``,
	} {
		f.Add([]byte(s))
	}
	alive := []string{"a", "b", "c"}
	f.Fuzz(func(t *testing.T, text []byte) {
		read := Read(text)
		if n := len(read.Holders) + len(read.Queue); n > MaxGateways {
			t.Fatalf("%d gateways", n)
		}
		check := func(s State, capacity int) {
			t.Helper()
			all := slices.Concat(s.Holders, s.Queue)
			slices.Sort(all)
			if !slices.Equal(all, alive) || len(s.Holders) > capacity {
				t.Fatalf("%+v at capacity %d", s, capacity)
			}
			text, err := json.Marshal(s)
			if again := Read(text); err != nil || !again.equal(s) {
				t.Fatalf("%s is read as %+v, %v", text, again, err)
			}
		}
		for capacity := 1; capacity < len(alive); capacity++ {
			check(read.among(alive, capacity), capacity)
			check(read.pass("a", alive, capacity), capacity)
		}
	})
}

// TestHostileStates gives a gateway states that no gateway writes, as everyone with access to the
// store can: what it remembers of them has a bound.
func TestHostileStates(t *testing.T) {
	ids := func(from, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint("gateway-", from+i))
		}
		return list
	}
	for name, s := range map[string]State{
		"many": {Holders: ids(0, MaxGateways+1)}, "twice": {Holders: []string{"a"}, Queue: []string{"a"}}, "long": {Queue: []string{strings.Repeat("a", MaxID+1)}},
		"empty": {Holders: []string{""}}, "unprintable": {Holders: []string{"\u202e"}},
	} {
		text, err := json.Marshal(s)
		if got := Read(text); err != nil || len(got.Holders)+len(got.Queue) > 0 {
			t.Errorf("%s: %d gateways, %v", name, len(got.Holders)+len(got.Queue), err)
		}
	}
	r := &Rotation{ID: "a", Store: nowhere{}, Slots: limit.NewTurns(), Alive: func() []string { return []string{"a", "b"} }, Logger: slog.New(slog.DiscardHandler),
		Workers: func(yield func(string, int)) { yield("w", 1) }, states: map[string]Kept{}, since: map[string]time.Time{}, absent: map[string]time.Time{}}
	for n := range 100 {
		r.note("w", Kept{State{Holders: ids(n*MaxGateways, MaxGateways)}, int64(n + 1)})
		r.step(t.Context(), time.Now())
	}
	if len(r.absent) > 10*MaxGateways {
		t.Errorf("%d gateways are remembered", len(r.absent))
	}
	for n := range MaxStates + 10 {
		r.note(fmt.Sprint("worker-", n), Kept{Revision: 1})
	}
	if len(r.states) != MaxStates {
		t.Errorf("%d states are kept", len(r.states))
	}
	for n := range MaxStates + 10 {
		r.note(fmt.Sprint("worker-", n), Kept{})
	}
	if len(r.states) != 1 {
		t.Errorf("%d states are kept after their end", len(r.states))
	}
}

// nowhere is a store that keeps nothing.
type nowhere struct{}

func (nowhere) List(context.Context) (map[string]Kept, int64, error) { return nil, 0, nil }
func (nowhere) Watch(context.Context, int64, func(string, Kept))     {}
func (nowhere) Swap(context.Context, string, Kept, State) error      { return nil }
