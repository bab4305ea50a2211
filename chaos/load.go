package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sample is one request of a load.
type sample struct {
	class  string
	status int // 0 where there was no answer
	whole  bool
	hint   bool          // a Retry-After was there
	tries  int           // as the gateway tells them
	first  time.Duration // until the first byte of the answer
	took   time.Duration
	body   []byte // of an error, the beginning
}

// load gathers samples.
type load struct {
	mu  sync.Mutex
	all []sample
}

func (l *load) add(s sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
}

// pick are the samples for which something holds.
func (l *load) pick(ok func(sample) bool) []sample {
	l.mu.Lock()
	defer l.mu.Unlock()
	var some []sample
	for _, s := range l.all {
		if ok(s) {
			some = append(some, s)
		}
	}
	return some
}

func isGood(s sample) bool { return s.status == http.StatusOK && s.whole }

// offer starts requests at a steady rate, whatever becomes of those before: real
// clients do not wait for each other. It returns when all have ended.
func offer(ctx context.Context, rate float64, during time.Duration, do func(i int)) (offered int) {
	var wg sync.WaitGroup
	began := time.Now()
	gap := time.Duration(float64(time.Second) / rate)
	for i := 0; ctx.Err() == nil; i++ {
		due := time.Duration(i) * gap
		if due >= during {
			break
		}
		if early := due - time.Since(began); early > 0 {
			time.Sleep(early)
		}
		wg.Go(func() { do(i) })
		offered++
	}
	wg.Wait()
	return offered
}

// keep runs a number of clients, each of which asks again when it was answered.
func keep(ctx context.Context, clients int, during time.Duration, do func(i int)) {
	var wg sync.WaitGroup
	end := time.Now().Add(during)
	for c := range clients {
		wg.Go(func() {
			for i := c; time.Now().Before(end) && ctx.Err() == nil; i += clients {
				do(i)
			}
		})
	}
	wg.Wait()
}

// measure sends one request and keeps what matters of the answer. A streamed
// answer's first byte is that of its body.
func (g *gateway) measure(ctx context.Context, q query) sample {
	if q.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.patience)
		defer cancel()
	}
	began := time.Now()
	s := sample{class: q.class}
	resp, err := g.open(ctx, chat, q.model, q.stream, q.headers...)
	if err != nil {
		s.took = time.Since(began)
		return s
	}
	defer resp.Body.Close()
	s.status, s.hint = resp.StatusCode, resp.Header.Get("Retry-After") != ""
	tries, _, _ := strings.Cut(resp.Header.Get("Isogloss-Attempts"), ";")
	s.tries, _ = strconv.Atoi(tries) // none where nobody was asked
	buf := make([]byte, 4<<10)
	n, err := resp.Body.Read(buf)
	s.first = time.Since(began)
	all := bytes.NewBuffer(buf[:n])
	if err == nil {
		_, err = all.ReadFrom(resp.Body)
	}
	s.took = time.Since(began)
	body := all.Bytes()
	if s.status != http.StatusOK {
		s.body = body[:min(len(body), 300)]
		return s
	}
	s.whole = (err == nil || errors.Is(err, io.EOF)) && bytes.Contains(body, []byte(`"finish_reason":"stop"`))
	return s
}

// direct asks a target itself, as if there were no gateway: what that takes is the
// machine's.
func (g *gateway) direct(u *upstream, name string) *gateway {
	return &gateway{url: "http://" + u.plain + "/" + name, client: g.client}
}

// query is what a load asks for, always in OpenAI Chat.
type query struct {
	model    string
	stream   bool
	class    string
	headers  []string
	patience time.Duration // after which the client gives up
}

// quantile of durations, in order of size.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func firsts(samples []sample) []time.Duration {
	all := make([]time.Duration, len(samples))
	for i, s := range samples {
		all[i] = s.first
	}
	return all
}

func tooks(samples []sample) []time.Duration {
	all := make([]time.Duration, len(samples))
	for i, s := range samples {
		all[i] = s.took
	}
	return all
}

// ms prints a duration with the digits that matter.
func ms(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}
