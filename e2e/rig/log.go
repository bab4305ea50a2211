package rig

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Log is a buffer that a process writes while a test reads it.
type Log struct{ testrig.Log }

func (l *Log) String() string { return strings.TrimSpace(l.Log.String()) }

// Tail returns the end of the log.
func (l *Log) Tail() string {
	s := l.String()
	return s[max(0, len(s)-16<<10):]
}
