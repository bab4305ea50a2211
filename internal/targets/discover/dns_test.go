package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// zone is a name server that a test can change.
type zone struct {
	mu    sync.Mutex
	hosts map[string][]string
	srv   map[string][]*net.SRV
	err   error // returned instead of a response
}

func (z *zone) set(change func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	change()
}

func noSuchName(name string) error {
	return &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (z *zone) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.err != nil {
		return nil, z.err
	}
	var list []netip.Addr
	for _, text := range z.hosts[host] {
		list = append(list, netip.MustParseAddr(text))
	}
	if list == nil {
		return nil, noSuchName(host)
	}
	return list, nil
}

func (z *zone) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	switch list := z.srv[name]; {
	case z.err != nil:
		return "", nil, z.err
	case list == nil:
		return "", nil, noSuchName(name)
	default:
		return name, list, nil
	}
}

func TestDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{
			hosts: map[string][]string{"vllm.svc": {"10.0.0.1", "::ffff:10.0.0.2", "11.0.0.1"}, "one.svc": {"10.0.1.1"}, "two.svc": {"10.0.1.2"}},
			srv:   map[string][]*net.SRV{"_llm._tcp.svc": {{Target: "one.svc", Port: 9001, Weight: 3}, {Target: "two.svc", Port: 9002}}},
		}
		src, err := DNS(DNSOptions{Resolver: z, Names: []Name{
			{Name: "vllm.svc", Port: 8000, Model: "m", Protocol: "openai-chat"},
			{Name: "_llm._tcp.svc", Model: "n", Protocol: "anthropic"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		a, d, stop := begin(t, Options{Sources: []Source{src}})
		defer stop()
		settle(time.Second)
		want := []Worker{
			{ID: "dns/m@10.0.0.1:8000", Model: "m", Protocol: "openai-chat", URL: "http://10.0.0.1:8000/v1"},
			{ID: "dns/m@10.0.0.2:8000", Model: "m", Protocol: "openai-chat", URL: "http://10.0.0.2:8000/v1"},
			{ID: "dns/n@10.0.1.1:9001", Model: "n", Protocol: "anthropic", URL: "http://10.0.1.1:9001", Weight: 3},
			{ID: "dns/n@10.0.1.2:9002", Model: "n", Protocol: "anthropic", URL: "http://10.0.1.2:9002"},
		}
		if got := a.last().Workers; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("resolved %v, want %v", got, want)
		}
		if n := d.Status().Refused; n != 1 {
			t.Errorf("%d are refused, want the one outside of the networks", n)
		}

		// A lookup without a response keeps the workers, however long it lasts.
		z.set(func() { z.err = &net.DNSError{Err: "server misbehaving", IsTemporary: true} })
		settle(time.Hour)
		if s := d.Status(); len(s.Snapshot.Workers) != 4 || !s.Snapshot.Stale {
			t.Errorf("with no answer: %+v", s)
		}

		// The removal of one address is applied at the next lookup. A name that
		// disappears later, not together with the address, is applied after a delay.
		z.set(func() { z.err, z.hosts["vllm.svc"] = nil, []string{"10.0.0.2"} })
		settle(7 * time.Second)
		if s := d.Status(); len(s.Snapshot.Workers) != 3 || s.Snapshot.Stale {
			t.Errorf("with one address less: %+v", s)
		}
		settle(10 * time.Second)
		z.set(func() { delete(z.srv, "_llm._tcp.svc") })
		settle(20 * time.Second)
		if s := d.Status(); len(s.Snapshot.Workers) != 3 || s.Kept != 2 {
			t.Errorf("20 s after the name is gone: %+v", s)
		}
		settle(20 * time.Second)
		if s := d.Status(); len(s.Snapshot.Workers) != 1 {
			t.Errorf("40 s after the name is gone: %+v", s)
		}
	})
}

// TestDNSWithOneNameAway checks that a name that was never resolved does not remove its
// workers from the disk.
func TestDNSWithOneNameAway(t *testing.T) {
	var heard []Change
	d := dns{DNSOptions{Names: make([]Name, 2)}}
	d.report([][]Worker{fleet(1, "m"), nil}, 1, time.Now(), func(c Change) { heard = append(heard, c) })
	if len(heard) != 2 || heard[0].All || !heard[1].Stale {
		t.Errorf("told %+v", heard)
	}
}

func TestDNSErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		gone bool
	}{
		"no such name":   {noSuchName("x"), true},
		"timeout":        {&net.DNSError{Err: "i/o timeout", IsTimeout: true, IsTemporary: true}, false},
		"server failure": {&net.DNSError{Err: "server misbehaving", IsTemporary: true}, false},
		"else":           {errors.New("x"), false},
		"none":           {nil, false},
	} {
		if missing(c.err) != c.gone {
			t.Errorf("%s: missing is %v", name, !c.gone)
		}
	}
	if _, err := DNS(DNSOptions{Names: []Name{{Name: "x"}}}); err == nil {
		t.Error("a name without a model is taken")
	}
}
