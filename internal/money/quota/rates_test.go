package quota

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

func TestUsed(t *testing.T) {
	c := newClock()
	k := newMemory(Options{Clock: c.now})
	defer k.Close()
	accounts := []Account{{"key:k", Limit{Requests: 10, Tokens: 1000, Budget: 50, Window: time.Hour}}}
	want := func(about string, want Use) {
		t.Helper()
		if got, ok := k.Used("o", "key:k"); !ok || got != want {
			t.Errorf("%s: %+v, want %+v", about, got, want)
		}
	}
	want("unused", Use{})
	h, _ := k.Reserve(context.Background(), Request{ID: "a", Org: "o", Accounts: accounts, Tokens: 300, Cost: 20})
	want("reserved", Use{1, 300, 2 * time.Minute, 2 * time.Minute, 0})
	settle(h, 100, 7)
	want("settled", Use{1, 100, 2 * time.Minute, 2 * time.Minute, 7})
	c.add(90 * time.Second)
	want("half of it is forgotten", Use{0.5, 50, 30 * time.Second, 30 * time.Second, 7})
	c.add(30 * time.Second)
	want("forgotten", Use{Spent: 7})
	reset := accounts[0].Limit.Reset(c.now())
	c.add(reset.Sub(c.now()))
	want("the window has passed", Use{})
}

func TestUsedInRedis(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{}, patient)
	accounts := []Account{{"key:k", Limit{Requests: 10, Tokens: 1000, Budget: usage.Dollar}}}
	settle(reserve(t, n, Request{ID: "a", Org: "o", Accounts: accounts, Tokens: 300, Cost: 20}), 300, 20)
	u, ok := n.Used("o", "key:k")
	if !ok || u.Requests != 1 || u.Tokens != 300 || u.RequestsReset < time.Minute || u.RequestsReset > 2*time.Minute || u.Spent != 0 {
		t.Errorf("%+v", u)
	}
	i := 0
	eventually(t, "the settlement is known", func() bool { // it is sent a moment later
		i++
		settle(reserve(t, n, Request{ID: fmt.Sprint("b", i), Org: "o", Accounts: accounts, Extension: true}), 0, 0)
		u, _ = n.Used("o", "key:k")
		return u.Spent == 20
	})
	n.back.(*redisBackend).serverOf("o").lost.Store(true)
	if u, ok := n.Used("o", "key:k"); ok {
		t.Errorf("while Redis is lost: %+v", u)
	}
}

// TestReset checks that the reset of a budget does not move within a sixtieth of its window, and is
// never earlier than the window's end.
func TestReset(t *testing.T) {
	l := Limit{Budget: 1, Window: 24 * time.Hour}
	at := time.Unix(1_800_000_000, 0).Truncate(24 * time.Minute)
	first := l.Reset(at)
	if again := l.Reset(at.Add(24*time.Minute - time.Second)); !again.Equal(first) || first.Before(at.Add(24*time.Hour)) || first.After(at.Add(25*time.Hour)) {
		t.Errorf("%v, %v, at %v", first, again, at)
	}
	if next := l.Reset(at.Add(24 * time.Minute)); next.Sub(first) != 24*time.Minute {
		t.Errorf("%v after %v", next, first)
	}
	if got := (Limit{Budget: 1}).Reset(at); !got.IsZero() {
		t.Errorf("for all time: %v", got)
	}
}
