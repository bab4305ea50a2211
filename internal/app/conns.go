package app

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// conns knows which connections have a request on them or are about to: those that
// were opened and have not said a word yet count too. http.Server.Shutdown drops a
// request that it reads after it was called, so it is not called before there is
// quiet. The zero value is ready for use.
type conns struct {
	mu      sync.Mutex
	busy    map[net.Conn]struct{}
	changed time.Time // when a connection was last busy
}

// note is an http.Server's ConnState.
func (c *conns) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateNew || state == http.StateActive {
		if c.busy == nil {
			c.busy = map[net.Conn]struct{}{}
		}
		c.busy[conn] = struct{}{}
		return
	}
	if _, was := c.busy[conn]; was {
		delete(c.busy, conn)
		c.changed = time.Now()
	}
}

// quiet is for how long no connection has been busy.
func (c *conns) quiet() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.busy) > 0 {
		return 0
	}
	return time.Since(c.changed)
}
