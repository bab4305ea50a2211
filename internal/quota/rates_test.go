package quota

import (
	"context"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
)

func TestRates(t *testing.T) {
	c := newClock()
	k := newMemory(Options{Clock: c.now})
	defer k.Close()
	accounts := []Account{{"key:k", Limit{Requests: 10}}, {"team:o/t", Limit{Requests: 20, Tokens: 1000}}, {"org:o", Limit{Budget: 5}}}
	want := func(about string, requests, tokens Rate) {
		t.Helper()
		if r, n := k.Rates("o", accounts); r != requests || n != tokens {
			t.Errorf("%s: %+v %+v, want %+v %+v", about, r, n, requests, tokens)
		}
	}
	want("unused", Rate{10, 10, 0}, Rate{1000, 1000, 0})
	h, _ := k.Reserve(context.Background(), Request{ID: "a", Org: "o", Accounts: accounts, Tokens: 300})
	want("reserved", Rate{10, 9, 2 * time.Minute}, Rate{1000, 700, 2 * time.Minute})
	settle(h, 100, 0)
	want("settled", Rate{10, 9, 2 * time.Minute}, Rate{1000, 900, 2 * time.Minute})
	c.add(90 * time.Second)
	want("half of it is forgotten", Rate{10, 9, 30 * time.Second}, Rate{1000, 950, 30 * time.Second})
	c.add(30 * time.Second)
	want("forgotten", Rate{10, 10, 0}, Rate{1000, 1000, 0})
	if r, n := k.Rates("o", nil); r != (Rate{}) || n != (Rate{}) {
		t.Errorf("without accounts: %+v %+v", r, n)
	}
}

func TestRatesInRedis(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{}, patient)
	accounts := []Account{{"key:k", Limit{Requests: 10, Tokens: 1000}}}
	settle(reserve(t, n, Request{ID: "a", Org: "o", Accounts: accounts, Tokens: 300}), 300, 0)
	requests, tokens := n.Rates("o", accounts)
	if requests.Limit != 10 || requests.Left != 9 || tokens.Limit != 1000 || tokens.Left != 700 || requests.Reset < time.Minute || requests.Reset > 2*time.Minute {
		t.Errorf("%+v %+v", requests, tokens)
	}
	n.back.(*redisBackend).serverOf("o").lost.Store(true)
	if requests, tokens := n.Rates("o", accounts); requests != (Rate{}) || tokens != (Rate{}) {
		t.Errorf("while Redis is lost: %+v %+v", requests, tokens)
	}
}
