//go:build !race

// Under the race detector times say nothing.

package access

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// samples are how long something took, by class.
type samples [3][]float64 // ns

const (
	wrongSecret = iota // of a key that exists
	almostRight        // the same, and its first 36 characters are right
	unknownID
	classesOf = 3
)

var classNames = [classesOf]string{"a wrong secret", "a secret that is almost right", "an id that does not exist"}

// measure takes n samples, the classes in random order, so that whatever else the
// machine does falls on all of them alike. Every sample is of a new key: with a stock
// of them the caches would know one class better than another.
func measure(n int, classes []int, prepare func(class, i int), once func()) samples {
	var out samples
	for i := range n + n/20 {
		class := classes[rand.IntN(len(classes))]
		prepare(class, i)
		began := time.Now()
		once()
		took := float64(time.Since(began))
		if i >= n/20 { // the first ones warm up
			out[class] = append(out[class], took)
		}
	}
	return out
}

// difference compares two classes. The means are without what took longer than 99 of
// 100 samples of both together: those were interrupted. The Kolmogorov-Smirnov test
// is with all.
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

// kolmogorovSmirnov is the probability that two sets of samples differ as much as
// they do, if they come from one distribution.
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

// alike reports whether a class cannot be told from wrong secrets by its times.
func alike(t *testing.T, s samples, class int) bool {
	t.Helper()
	mean, p := difference(s[wrongSecret], s[class])
	t.Logf("%s (%d) and %s (%d): means %.0f ns apart, p = %.3g", classNames[wrongSecret], len(s[wrongSecret]), classNames[class], len(s[class]), mean, p)
	return mean < 1000 && p > 0.01
}

// holds tries three times: by chance alone one try in a hundred fails. A leak fails
// every time; the tests of the test show it.
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

// timed is a directory with a key, and one that is not in it.
type timed struct {
	d             *Directory
	right, absent string
}

func newTimed(t *testing.T) *timed {
	t.Helper()
	s, p := newSource(), peppers(t)
	_, keys := s.stored(p, 1000)
	d := NewDirectory(DirectoryOptions{Source: s, Peppers: p})
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, absent := minted(p)
	return &timed{d: d, right: keys[0], absent: absent}
}

// key is a new key of a class.
func (x *timed) key(class int) string {
	switch class {
	case wrongSecret:
		return otherSecret(x.right, 0)
	case almostRight:
		return otherSecret(x.right, 36)
	}
	return otherSecret(x.absent, 0)
}

// from gives every request an address that has not sent too many wrong keys.
func from(r *http.Request, i int) {
	n := uint32(i)
	r.RemoteAddr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 1234).String()
}

// How much of a secret is right cannot be seen, even from within the process.
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

	// Proof that the test can see a comparison that stops at the first difference.
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

// A check of a known key makes nothing. (The race detector makes pools forget.)
func TestCheckMakesNothing(t *testing.T) {
	x := newTimed(t)
	r := request(x.right)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := x.d.Check(r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A client on the same machine cannot tell by the time of an answer whether an id
// exists, nor how much of a secret is right. The id that does not exist is one that
// the store was asked for in the last second: see the package comment.
func TestTimingOfAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	x := newTimed(t)
	// As many ids that exist as ids that do not, or the processor would guess one of
	// them better.
	all := []int{wrongSecret, almostRight, unknownID, unknownID}
	honest := newClient(t, x, func(r *http.Request) bool { _, err := x.d.Check(r); return err == nil })
	if !holds(t, func() bool {
		s := measure(200_000, all, honest.prepare, honest.once)
		a, b := alike(t, s, almostRight), alike(t, s, unknownID)
		return a && b
	}) {
		t.Error("wrong keys can be told apart by the time of the answer")
	}

	// Proof that the test can see a check that is over as soon as the id is not found.
	leaky := newClient(t, x, func(r *http.Request) bool {
		id, _, _ := Parse(presented(r))
		if x.d.table.Load().find(id) == nil {
			_ = x.d.refuse(r, id, time.Now())
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
