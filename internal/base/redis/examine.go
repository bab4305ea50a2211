package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Facts is what a server says of itself.
type Facts struct {
	Addr      string
	Version   string
	Evicts    string // policy by which it deletes keys when its memory is full; empty: it deletes none
	Memory    int64  // bytes in use
	MaxMemory int64  // bytes; 0: no limit
	Disk      Disk
	Latency   time.Duration // of a call
	Clock     time.Duration // by how much its clock is ahead of this machine's
}

// Disk says how a server writes its data to disk.
type Disk string

// The values of Disk.
const (
	DiskUnknown Disk = ""
	DiskNone    Disk = "none"
	DiskAOF     Disk = "append-only file"
	DiskRDB     Disk = "snapshots"
	DiskFailing Disk = "failing" // the last write failed
)

// Examine returns the facts of the servers that a Client with these options uses. It uploads no scripts.
func Examine(ctx context.Context, o Options) (all []Facts, err error) {
	o.Scripts = nil
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if c.masterSet != "" {
		c.mu.Lock()
		_, err = c.askSentinels(ctx)
		c.mu.Unlock()
		if err != nil {
			return nil, fmt.Errorf("the Sentinels: %w", err)
		}
	}
	for _, s := range c.Topology().Servers {
		f, err := s.examine(ctx)
		if err != nil {
			return all, fmt.Errorf("%s: %w", s.Addr, err)
		}
		all = append(all, f)
	}
	return all, nil
}

func (s *Server) examine(ctx context.Context) (f Facts, err error) {
	if s.Lost() || s.Conn() == nil {
		if err := s.identify(ctx); err != nil {
			return f, err
		}
	}
	conn := s.Conn()
	text, err := conn.Do(ctx, conn.B().Info().Build()).ToString()
	if err != nil {
		return f, err
	}
	f = Facts{Addr: s.Addr, Version: infoField(text, "redis_version"), Evicts: evictionPolicy(text), Disk: diskOf(text)}
	f.Memory, _ = strconv.ParseInt(infoField(text, "used_memory"), 10, 64) // 0: it does not say
	f.MaxMemory, _ = strconv.ParseInt(infoField(text, "maxmemory"), 10, 64)
	if f.Disk == DiskNone {
		f.Disk = s.snapshots(ctx)
	}
	asked := time.Now()
	now, err := conn.Do(ctx, conn.B().Time().Build()).AsStrSlice()
	if f.Latency = time.Since(asked); err != nil {
		return f, err
	}
	if len(now) != 2 {
		return f, errors.New("redis returned another reply than that of TIME")
	}
	seconds, err1 := strconv.ParseInt(now[0], 10, 64)
	micros, err2 := strconv.ParseInt(now[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return f, errors.New("redis returned another reply than that of TIME")
	}
	f.Clock = time.Unix(seconds, micros*1000).Sub(asked.Add(f.Latency / 2))
	return f, nil
}

// diskOf reads how a server without an append-only file says that it writes: not at all, until CONFIG says otherwise.
func diskOf(info string) Disk {
	aof := infoField(info, "aof_enabled")
	switch {
	case infoField(info, "rdb_last_bgsave_status") == "err", aof == "1" && infoField(info, "aof_last_write_status") == "err":
		return DiskFailing
	case aof == "1":
		return DiskAOF
	case aof == "0":
		return DiskNone
	}
	return DiskUnknown
}

// snapshots returns whether the server without an append-only file saves snapshots. Managed services do not say.
func (s *Server) snapshots(ctx context.Context) Disk {
	conn := s.Conn()
	got, err := conn.Do(ctx, conn.B().ConfigGet().Parameter("save").Build()).AsStrMap()
	if _, refused := rueidis.IsRedisErr(err); refused || err != nil {
		return DiskUnknown
	}
	if got["save"] == "" {
		return DiskNone
	}
	return DiskRDB
}

// infoField returns the value of a field of INFO.
func infoField(info, name string) string {
	_, value, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ = strings.Cut(value, "\r\n")
	return value
}

// evictionPolicy returns the policy by which a server deletes keys when its memory is full; empty: it deletes none.
func evictionPolicy(info string) string {
	policy := infoField(info, "maxmemory_policy")
	if policy == "noeviction" || strings.Contains(info, "\nmaxmemory:0\r\n") {
		return ""
	}
	return policy
}
