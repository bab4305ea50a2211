package limit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestKeyThatHoldsEverything checks that a key that was seen before is served at once although another
// key opens as many requests as it can, and keeps them open.
func TestKeyThatHoldsEverything(t *testing.T) {
	for name, config := range map[string]Config{"process": {Requests: 20, Queue: 100}, "target": {Requests: -1, PerTarget: 16, Queue: 100}, "small target": {Requests: -1, PerTarget: 2, Queue: 100}, "adaptive": {Requests: -1, Adaptive: true, Queue: 100}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := use(config)
				take := func(key string) (Permit, *Refusal) {
					if config.Requests > 0 {
						return l.Enter(context.Background(), Caller{Key: key, Class: Normal})
					}
					target := l.Target("t", 0)
					if p, ok := target.TryEnter(Caller{Key: key, Class: Normal}); ok {
						return p, nil
					}
					return target.Enter(context.Background(), Caller{Key: key, Class: Normal})
				}
				first, _ := take("victim")
				first.Release()
				got := make(chan Permit, 1000)
				for range 200 {
					go func() {
						if p, refusal := take("greedy"); refusal == nil {
							got <- p
						}
					}()
				}
				synctest.Wait()
				open := len(got)
				if open == 0 {
					t.Fatal("the key gets nothing")
				}
				began := time.Now()
				for range 50 {
					p, refusal := take("victim")
					if refusal != nil {
						t.Fatalf("another key is refused: %v", refusal)
					}
					time.Sleep(10 * time.Millisecond)
					p.Release()
				}
				if took := time.Since(began); took != 500*time.Millisecond {
					t.Errorf("50 requests of another key took %v", took)
				}
				time.Sleep(10 * time.Second) // the waiting ones give up
				if n := len(got); n != open {
					t.Errorf("the key has %d slots, %d at first", n, open)
				}
				for range open {
					(<-got).Release()
				}
				synctest.Wait()
				for len(got) > 0 {
					(<-got).Release()
				}
			})
		})
	}
}

// TestOneKeyUsesAll checks that a key that is alone gets every slot.
func TestOneKeyUsesAll(t *testing.T) {
	l := use(Config{Requests: -1, PerTarget: 16})
	for i := range 16 {
		if _, ok := l.Target("t", 0).TryEnter(Caller{Key: "a", Class: Normal}); !ok {
			t.Fatalf("it gets %d slots of 16", i)
		}
	}
}

// TestKeyDrivesTheLimit checks that one key alone cannot lower an adaptive limit: its requests are late or
// rejected, while another key is served as always.
func TestKeyDrivesTheLimit(t *testing.T) {
	for name, attack := range map[string]func(a *adaptive, now time.Duration, i int){
		"rejected": func(a *adaptive, now time.Duration, _ int) { a.failed("attacker", now) },
		"slow": func(a *adaptive, now time.Duration, _ int) {
			a.firstToken("attacker", 30*time.Second, now-30*time.Second, now, 30)
		},
		"slow and fast in turn": func(a *adaptive, now time.Duration, i int) {
			d := 10 * time.Millisecond
			if i/150%2 == 0 {
				d = 8 * time.Second
			}
			a.firstToken("attacker", d, now-d, now, 30)
		},
	} {
		a := adaptiveTo(100)
		now, least := time.Minute, 1e9
		for i := range 3000 { // five minutes
			now += 100 * time.Millisecond
			a.firstToken("victim", 500*time.Millisecond, now-500*time.Millisecond, now, 30)
			if i > 300 {
				attack(a, now, i)
				attack(a, now, i)
				least = min(least, float64(a.places()))
			}
		}
		if least < 16 {
			t.Errorf("%s: the limit falls to %.0f", name, least)
		}
	}
}

// TestOverloadOfSeveralKeys checks that the limit still falls if the target is late for all keys,
// each by its own measure, and if it rejects several.
func TestOverloadOfSeveralKeys(t *testing.T) {
	a := adaptiveTo(100)
	now := time.Minute
	run := func(seconds int, factor time.Duration) {
		for range seconds * 10 {
			now += 100 * time.Millisecond
			for key, d := range map[string]time.Duration{"short": 200 * time.Millisecond, "long": 4 * time.Second} {
				a.firstToken(key, d*factor, now-d*factor, now, a.places())
				a.firstToken(key, d*factor, now-d*factor, now, a.places())
			}
		}
	}
	run(30, 1)
	before := a.places()
	run(20, 4)
	if a.places() > before*3/4 {
		t.Errorf("the limit is %d of %d although the target is late", a.places(), before)
	}
	before = a.places()
	for range 20 {
		a.failed("short", now)
		a.failed("long", now)
	}
	if a.places() > before*3/4 {
		t.Errorf("the limit is %d of %d although the target rejects both keys", a.places(), before)
	}
}
