package rig

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Log is written by a process while a test may read it.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.b.String())
}

// Tail is the last of what was written: a gateway that served a whole matrix has much
// to tell.
func (l *Log) Tail() string {
	const most = 16 << 10
	s := l.String()
	return s[max(0, len(s)-most):]
}

// WaitFor holds that the text is written, if not at once then soon: a process may write
// a line about an answer when its client has it already.
func (l *Log) WaitFor(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !strings.Contains(l.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("the log does not have %s", text)
			return
		}
	}
}

// Reset forgets what was written.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}
