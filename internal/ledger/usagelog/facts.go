package usagelog

import (
	"errors"
	"time"
)

// Errors of Examine that name a cause which the setting of the log can remove.
var (
	ErrAway      = errors.New("none of the servers can be reached")
	ErrAccount   = errors.New("the server refuses the user or the password")
	ErrNoAccount = errors.New("the server closes connections without a user and a password")
	ErrPlain     = errors.New("the server closes connections without TLS")
	ErrJetStream = errors.New("JetStream is not enabled")
)

// Facts is what the servers of a log say of themselves.
type Facts struct {
	Servers    int  // that are known
	Missing    bool // the log is not there yet
	Partitions int  // of a topic of Kafka
	Replicas   int
	Weaknesses []string // settings under which the servers may lose what they have acknowledged
	Latency    time.Duration
}
