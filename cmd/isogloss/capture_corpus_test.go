package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/conform/record"
	"github.com/isogloss-gateway/isogloss/internal/edge/local"
	"github.com/isogloss-gateway/isogloss/internal/request/capture"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// taker captures all exchanges of a gateway in this process.
type taker struct {
	got  chan *capture.Exchange
	lost chan struct{} // receives a value when an exchange was too large
}

func attachAll(t *testing.T, address string) *taker {
	t.Helper()
	k := &taker{got: make(chan *capture.Exchange, 64), lost: make(chan struct{}, 64)}
	ctx, cancel := context.WithCancel(t.Context())
	attached, done := make(chan struct{}), make(chan error, 1)
	socket := socketOf(t, address)
	go func() {
		done <- capture.Attach(ctx, socket, capture.Filter{All: true, Count: 1 << 30, Bytes: 1 << 20}, capture.Handler{
			Attached: func() { close(attached) },
			Exchange: func(x *capture.Exchange) error {
				select {
				case k.got <- x:
				case <-ctx.Done():
				}
				return nil
			},
			Missed: func(_, busy int64) {
				if busy > 0 {
					t.Errorf("%d were missed", busy)
				}
				k.lost <- struct{}{}
			},
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	select {
	case <-attached:
	case err := <-done:
		t.Fatal("not attached: ", err)
	}
	return k
}

func socketOf(t *testing.T, address string) string {
	t.Helper()
	var found string
	testrig.Eventually(t, "there is a socket of "+address, func() bool { // it is created after the ports
		sockets := local.Sockets()
		i := slices.IndexFunc(sockets, func(s string) bool { return local.Address(s) == address && local.Alive(t.Context(), s) })
		if i >= 0 {
			found = sockets[i]
		}
		return i >= 0
	})
	return found
}

// last returns the last of n exchanges, or nil if the request was rejected before a
// target was chosen or was too large.
func (k *taker) last(n int) (x *capture.Exchange) {
	for range n {
		select {
		case x = <-k.got:
		case <-k.lost:
			return nil
		case <-time.After(500 * time.Millisecond):
			return x
		}
	}
	return x
}

// TestCapturedCorpusHolds captures cases of the corpus while they run and checks that
// each capture replays without differences, redacted and clear. The situations run in
// every cell, the other cases in some; ISOGLOSS_ALL_CELLS=1 runs all of them.
func TestCapturedCorpusHolds(t *testing.T) {
	cases, err := conform.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := conform.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	upstream := conform.NewUpstream(listener)
	defer upstream.Close()
	base, stop, err := startSelf(t.Context(), upstream.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	target := conform.SelfTarget(base)
	delete(target.Models, conform.Converse) // its frames are not recorded
	runner := &conform.Runner{Target: target, Upstream: upstream}
	defer runner.Close()
	k := attachAll(t, strings.TrimPrefix(base, "http://"))
	all := os.Getenv("ISOGLOSS_ALL_CELLS") != ""
	count := map[string]int{}
	n := 0
	for _, c := range cases {
		for _, cell := range runner.Cells(c) {
			if cell.Client == conform.Converse {
				continue
			}
			if n++; !all && c.Group() != "situations" && n%54 != 0 {
				continue
			}
			if res := runner.Run(t.Context(), c, cell); !res.Passed() {
				t.Errorf("%s %s: %v", c.Name, cell, res.Problems)
			}
			x := k.last(c.Rounds())
			if x == nil {
				count["not captured"]++
				continue
			}
			for _, texts := range []record.Texts{record.Masked, record.Clear} {
				count[playAgain(t, runner, k, x, texts, c.Name+" "+cell.String())]++
			}
		}
	}
	t.Log(count)
	if count["holds"] < 1000 || count["holds"] < 15*(count["not captured"]+count["no case"]) {
		t.Errorf("too few could be tried: %v", count)
	}
}

// playAgain replays a capture and returns the result.
func playAgain(t *testing.T, runner *conform.Runner, k *taker, x *capture.Exchange, texts record.Texts, name string) string {
	t.Helper()
	e, err := recorded(x)
	if err != nil {
		return "no case"
	}
	text, err := record.Write(e, texts)
	if errors.Is(err, record.ErrNoResponse) {
		return "no case"
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return "fails"
	}
	c, err := conform.ParseCase("recorded", text)
	if err != nil {
		t.Fatal(err)
	}
	cells := c.Cells()
	if len(cells) != 1 || len(runner.Cells(c)) != 1 {
		t.Errorf("%s: the capture is of the cells %v", name, cells)
		return "fails"
	}
	res := runner.Run(t.Context(), c, cells[0])
	k.last(1)
	if !res.Passed() {
		t.Errorf("%s: %s\n%s", name, strings.Join(res.Problems, "\n"), text)
		return "fails"
	}
	return "holds"
}
