package protocol

import "time"

// RateLimit is a limit per minute and what is left of it. The zero RateLimit is no limit.
type RateLimit struct {
	Limit, Left int64
	Reset       time.Duration // until all of it is left again, if nothing else is used
}
