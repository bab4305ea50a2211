package usagelog

import "time"

// Facts is what the servers of a log say of themselves.
type Facts struct {
	Servers    int  // that are known
	Missing    bool // the log is not there yet
	Partitions int  // of a topic of Kafka
	Replicas   int
	Weaknesses []string // settings under which the servers may lose what they have acknowledged
	Latency    time.Duration
}
