//go:build timing && !race

// Statistical tests of response times. They need an idle machine: run them with make timing. The
// regular suite has TestWrongKeysTakeTheSameSteps.

package access

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/agents"
)

// samples holds durations by class of key.
type samples [3][]float64 // ns

// measure takes n samples of random classes, so that disturbances affect all classes alike. Every
// sample uses a new key: with a stock of keys the caches would favour a class.
func measure(n int, classes []int, prepare func(class, i int), once func()) samples {
	var out samples
	for i := range n + n/20 {
		class := classes[rand.IntN(len(classes))]
		prepare(class, i)
		began := time.Now()
		once()
		took := float64(time.Since(began))
		if i >= n/20 { // warm up
			out[class] = append(out[class], took)
		}
	}
	return out
}

// difference compares two classes. The means exclude the slowest hundredth of the samples, which was
// interrupted. The Kolmogorov-Smirnov test uses all samples.
func difference(a, b []float64) (mean, p float64) {
	both := slices.Concat(a, b)
	slices.Sort(both)
	cut := both[len(both)*99/100]
	return math.Abs(meanBelow(a, cut) - meanBelow(b, cut)), kolmogorovSmirnov(a, b)
}

func meanBelow(all []float64, cut float64) float64 {
	sum, n := 0.0, 0
	for _, v := range all {
		if v <= cut {
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(n)
}

// kolmogorovSmirnov returns the probability that two sets of samples from one distribution differ this
// much.
func kolmogorovSmirnov(a, b []float64) float64 {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	most := 0.0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		v := min(a[i], b[j])
		for i < len(a) && a[i] == v {
			i++
		}
		for j < len(b) && b[j] == v {
			j++
		}
		most = max(most, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	n := math.Sqrt(float64(len(a)) * float64(len(b)) / float64(len(a)+len(b)))
	lambda := (n + 0.12 + 0.11/n) * most
	p := 0.0
	for k := 1.0; k <= 100; k++ {
		p += 2 * math.Pow(-1, k-1) * math.Exp(-2*k*k*lambda*lambda)
	}
	if lambda < 0.2 {
		return 1 // the series does not converge there, and the value is 1 to many digits
	}
	return min(max(p, 0), 1)
}

// alike reports whether the times of a class do not differ from those of wrong secrets.
func alike(t *testing.T, s samples, class int) bool {
	t.Helper()
	mean, p := difference(s[wrongSecret], s[class])
	t.Logf("%s (%d) and %s (%d): means %.0f ns apart, p = %.3g", classNames[wrongSecret], len(s[wrongSecret]), classNames[class], len(s[class]), mean, p)
	return mean < 1000 && p > 0.01
}

// holds tries three times: one try in a hundred fails by chance. A leak fails every time, as the tests
// show with a leaky check.
func holds(t *testing.T, try func() bool) bool {
	t.Helper()
	for range 3 {
		if try() {
			return true
		}
	}
	return false
}

func TestKolmogorovSmirnov(t *testing.T) {
	normal := func(n int, shift float64) (out []float64) {
		for range n {
			out = append(out, math.Round(1000*(rand.NormFloat64()+shift)))
		}
		return out
	}
	refused := 0
	for range 1000 {
		if kolmogorovSmirnov(normal(500, 0), normal(500, 0)) < 0.05 {
			refused++
		}
	}
	if refused < 15 || refused > 90 { // 50 are expected, or somewhat fewer
		t.Errorf("%d of 1000 pairs from one distribution were told apart at p < 0.05", refused)
	}
	if p := kolmogorovSmirnov(normal(60_000, 0), normal(60_000, 0.03)); p > 0.01 {
		t.Errorf("a shift of 0.03 is not seen: p = %g", p)
	}
}

// TestTimingOfSecrets checks that the time of a check does not depend on how much of a secret is correct.
func TestTimingOfSecrets(t *testing.T) {
	x := newTimed(t)
	pair := []int{wrongSecret, almostRight}
	r := request("")
	if !holds(t, func() bool {
		return alike(t, measure(200_000, pair, func(class, i int) {
			r.Header["Authorization"] = []string{"Bearer " + x.key(class)}
			from(r, i)
		}, func() {
			if _, err := x.d.Check(r); err == nil {
				t.Fatal("a wrong key was admitted")
			}
		}), almostRight)
	}) {
		t.Error("how much of a secret is right can be seen in the time that it takes")
	}

	// The test must detect a comparison that stops at the first difference.
	_, sec, _ := Parse(x.right)
	var text string
	leaky := func() {
		_, got, _ := Parse(text)
		for i := range secretLen {
			if got[i] != sec[i] {
				return
			}
		}
	}
	if alike(t, measure(200_000, pair, func(class, _ int) { text = x.key(class) }, leaky), almostRight) {
		t.Error("a comparison that stops at the first difference was not seen: the test proves nothing")
	}
}

// TestTimingOfAnswers checks that response times reveal neither whether an id exists nor how much of a
// secret is correct. The store was queried for the unknown id in the last second: see the package
// comment.
func TestTimingOfAnswers(t *testing.T) {
	x := newTimed(t)
	// As many known as unknown ids, or branch prediction would favour one of them.
	all := []int{wrongSecret, almostRight, unknownID, unknownID}
	honest := newClient(t, x, func(r *http.Request) bool { _, err := x.d.Check(r); return err == nil })
	if !holds(t, func() bool {
		s := measure(200_000, all, honest.prepare, honest.once)
		a, b := alike(t, s, almostRight), alike(t, s, unknownID)
		return a && b
	}) {
		t.Error("wrong keys can be told apart by the time of the answer")
	}

	// The test must detect a check that returns as soon as the id is not found.
	leaky := newClient(t, x, func(r *http.Request) bool {
		id, _, _ := Parse(agents.Key(r))
		if x.d.table.Load().find(id) == nil {
			_ = x.d.rejectKey(r, id, time.Now())
			return false
		}
		_, err := x.d.Check(r)
		return err == nil
	})
	if alike(t, measure(60_000, []int{wrongSecret, unknownID}, leaky.prepare, leaky.once), unknownID) {
		t.Error("a check without the HMAC was not seen: the test proves nothing")
	}
}

// client sends wrong keys over one connection.
type client struct {
	t    *testing.T
	x    *timed
	conn net.Conn
	out  []byte
	in   [4096]byte
}

func newClient(t *testing.T, x *timed, check func(*http.Request) bool) *client {
	t.Helper()
	n := 0
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		from(r, n)
		if check(r) {
			t.Error("a wrong key was admitted")
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "\nend.")
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); _ = server.Close(); <-done })
	return &client{t: t, x: x, conn: conn}
}

func (c *client) prepare(class, _ int) {
	c.out = fmt.Appendf(c.out[:0], "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", c.x.key(class))
}

func (c *client) once() {
	if _, err := c.conn.Write(c.out); err != nil {
		c.t.Fatal(err)
	}
	for n := 0; !bytes.HasSuffix(c.in[:n], []byte("\nend.")); {
		more, err := c.conn.Read(c.in[n:])
		if err != nil {
			c.t.Fatal(err)
		}
		n += more
	}
}
