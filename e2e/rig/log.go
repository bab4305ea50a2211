package rig

import (
	"bytes"
	"strings"
	"sync"
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

// Reset forgets what was written.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}
