package testrig

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Log is a buffer that a process or a gateway writes while a test reads it. The zero
// value is empty.
type Log struct {
	mu      sync.Mutex
	b       bytes.Buffer
	written chan struct{} // closed by the next write; nil if no reader waits
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written != nil {
		close(l.written)
		l.written = nil
	}
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Reset empties the log.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// WaitFor waits for the nth complete line with a text and returns it. The test fails when
// the writer has ended without it; a nil channel never ends.
func (l *Log) WaitFor(t testing.TB, text string, n int, ended <-chan struct{}) string {
	t.Helper()
	timeout := time.After(startTimeout)
	for over := false; ; {
		l.mu.Lock()
		all := l.b.String()
		if l.written == nil {
			l.written = make(chan struct{})
		}
		written := l.written
		l.mu.Unlock()
		found := 0
		for line := range strings.Lines(all) {
			if strings.Contains(line, text) && strings.HasSuffix(line, "\n") {
				if found++; found == n {
					return line
				}
			}
		}
		if over {
			t.Fatalf("the log has %d lines with %q, want %d:\n%s", found, text, n, all)
		}
		select {
		case <-written:
		case <-ended:
			over = true // the last lines may have been written meanwhile
		case <-timeout:
			over = true
		}
	}
}
