package cache

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Settings is the cache of responses to deterministic requests.
type Settings struct {
	// How long a response is kept.
	TTL time.Duration `key:"ttl" example:"10m"`
	// Memory for the cache if there is no Redis.
	Size int64 `key:"size" is:"bytes" default:"256MiB" minimum:"1KiB" example:"1GiB"`
}

// Check checks that responses expire.
func (s *Settings) Check(at *settings.At) {
	if s.TTL <= 0 {
		at.Wrong("ttl", "is required: it is how long a response is kept; write a duration such as 10m")
	}
}
