package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

func reserve(t testing.TB, s *Spool, id string, amount usage.Money) *Entry {
	t.Helper()
	e, err := s.Begin(Opening{ID: id, Key: "k", Org: "o", Began: time.Now(), Reserved: amount})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func endReserved(t testing.TB, e *Entry) {
	t.Helper()
	if _, err := e.End(usage.Row{Key: "k", Org: "o"}); err != nil {
		t.Fatal(err)
	}
}

// wantHeld checks what a process knows of the reservations of another.
func wantHeld(t testing.TB, s *Spool, want usage.Money) {
	t.Helper()
	if _, held := s.Spent("key:k"); held != want {
		t.Errorf("%d are reserved in the other process, want %d", held, want)
	}
}

// TestOtherProcessRotates reads the log of a process while it writes one segment after the other.
func TestOtherProcessRotates(t *testing.T) {
	dir := t.TempDir()
	old := openSpool(t, Options{Dir: dir, segmentSize: 512})
	young := openSpool(t, Options{Dir: dir})
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				young.Spent("key:k")
			}
		}
	})
	for i := range 2000 {
		endReserved(t, reserve(t, old, fmt.Sprint(i), 1))
	}
	close(stop)
	reading.Wait()
	wantHeld(t, young, 0)
}

// TestOtherProcessRemovesSegments reads the log of a process after it has removed segments that were
// not read.
func TestOtherProcessRemovesSegments(t *testing.T) {
	dir := t.TempDir()
	old, to := openSpool(t, Options{Dir: dir, segmentSize: 4 << 10}), newLedger()
	young := openSpool(t, Options{Dir: dir})
	ended, stream := reserve(t, old, "ended", 5), reserve(t, old, "stream", 20)
	stream.Reserve(30)
	wantHeld(t, young, 35)
	endReserved(t, ended)
	drain(t, old, to, nil)
	first := segmentsOf(t, old)[0]
	for i := 0; segmentsOf(t, old)[0] == first; i++ {
		endReserved(t, reserve(t, old, fmt.Sprint(i), 1))
		flush(t, old)
	}
	wantHeld(t, young, 30)
	endReserved(t, stream)
	wantHeld(t, young, 0)
}

// TestOtherProcessKeepsASegment is TestOtherProcessRemovesSegments with an oldest segment that could not be
// removed. The next one, in which a request of the oldest has ended, was.
func TestOtherProcessKeepsASegment(t *testing.T) {
	dir := t.TempDir()
	old, to := openSpool(t, Options{Dir: dir, segmentSize: 4 << 10}), newLedger()
	young := openSpool(t, Options{Dir: dir})
	ended, stream := reserve(t, old, "ended", 5), reserve(t, old, "stream", 20)
	wantHeld(t, young, 25)
	list := segmentsOf(t, old)
	first, kept := filepath.Join(old.dir, list[0]), filepath.Join(t.TempDir(), "kept")
	if err := os.Link(first, kept); err != nil {
		t.Fatal(err)
	}
	for i := 0; len(segmentsOf(t, old)) == 1; i++ {
		endReserved(t, reserve(t, old, fmt.Sprint("first-", i), 1))
	}
	endReserved(t, ended)
	second := segmentsOf(t, old)[1]
	drain(t, old, to, nil)
	for i := 0; segmentsOf(t, old)[0] <= second; i++ {
		endReserved(t, reserve(t, old, fmt.Sprint(i), 1))
		flush(t, old)
	}
	if err := os.Link(kept, first); err != nil {
		t.Fatal(err)
	}
	wantHeld(t, young, 20)
	endReserved(t, stream)
	wantHeld(t, young, 0)
}
