package redis

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Topology says which server has which keys. It does not change.
type Topology struct {
	Servers []*Server
	slots   []uint16 // index of the server of each slot; nil: one server has all keys
	ranges  []master // what it was made of
	tags    []string
}

// master is a server that accepts writes.
type master struct {
	addr  string
	slots [][2]int // first and last slots; nil: all keys
}

const (
	slotCount  = 16384
	maxMasters = 1000 // the most that a cluster should have
)

// Index returns the index of the server of a key.
func (t *Topology) Index(key string) int {
	if t.slots == nil {
		return 0
	}
	return int(t.slots[slotOf(key)])
}

// Server returns the server of a key.
func (t *Topology) Server(key string) *Server { return t.Servers[t.Index(key)] }

// Tag returns a name for the server with the given index: a key with the name in braces belongs to it.
func (t *Topology) Tag(i int) string {
	if t.slots == nil {
		return tagName
	}
	return t.tags[i]
}

const tagName = "members"

// newTopology returns the topology of masters, and nil if it is the old one. Servers that stay keep
// their connections.
func newTopology(masters []master, old *Topology, newServer func(addr string) *Server) *Topology {
	slices.SortFunc(masters, func(a, b master) int { return cmp.Compare(a.addr, b.addr) })
	if slices.EqualFunc(masters, old.ranges, func(a, b master) bool { return a.addr == b.addr && slices.Equal(a.slots, b.slots) }) {
		return nil
	}
	t := &Topology{ranges: masters}
	for _, m := range masters {
		s := newServer(m.addr)
		if i := slices.IndexFunc(old.Servers, func(s *Server) bool { return s.Addr == m.addr }); i >= 0 {
			s = old.Servers[i]
		}
		t.Servers = append(t.Servers, s)
	}
	if masters[0].slots == nil {
		return t
	}
	t.slots = make([]uint16, slotCount)
	for i, m := range masters {
		t.Servers[i].member.Store(true)
		for _, r := range m.slots {
			for n := r[0]; n <= r[1]; n++ {
				t.slots[n] = uint16(i)
			}
		}
	}
	t.tags = make([]string, len(masters))
	for n, missing := 0, len(masters); missing > 0 && n < slotCount*32; n++ {
		tag := tagName + ":" + strconv.Itoa(n)
		if i := t.slots[slotOf(tag)]; t.tags[i] == "" {
			t.tags[i] = tag
			missing--
		}
	}
	return t
}

// slotOf returns the cluster slot of a key: the CRC-16 (XMODEM) of the part in braces, or of all.
func slotOf(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	sum := uint16(0)
	for i := range len(key) {
		sum ^= uint16(key[i]) << 8
		for range 8 {
			if sum&0x8000 != 0 {
				sum = sum<<1 ^ 0x1021
			} else {
				sum <<= 1
			}
		}
	}
	return int(sum % slotCount)
}

// askCluster returns the masters of a cluster. It asks the servers that are connected, and then the
// configured addresses.
func (c *Client) askCluster(ctx context.Context) (masters []master, err error) {
	for _, s := range c.Topology().Servers {
		if conn := s.conn.Load(); conn != nil && !s.Lost() {
			if masters, err = c.readSlots(ctx, *conn, s.Addr); err == nil {
				return masters, nil
			}
		}
	}
	for _, addr := range c.seeds {
		var conn rueidis.Client
		if conn, err = c.dial(addr); err != nil {
			continue
		}
		masters, err = c.readSlots(ctx, conn, addr)
		conn.Close()
		if err == nil {
			return masters, nil
		}
	}
	return nil, err
}

var errSlots = errors.New("redis returned another reply than that of CLUSTER SLOTS")

// readSlots asks a server for the masters of its cluster.
func (c *Client) readSlots(ctx context.Context, conn rueidis.Client, addr string) ([]master, error) {
	ctx, cancel := context.WithTimeout(ctx, c.AtLeast(identifyTimeout))
	defer cancel()
	ranges, err := conn.Do(ctx, conn.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	own, _, _ := net.SplitHostPort(addr)
	bySlot := map[string]*master{}
	for _, r := range ranges {
		at, from, to, err := readRange(r, own)
		if err != nil {
			return nil, err
		}
		m := bySlot[at]
		if m == nil {
			m = &master{addr: at}
			bySlot[at] = m
		}
		m.slots = append(m.slots, [2]int{from, to})
	}
	if len(bySlot) == 0 || len(bySlot) > maxMasters {
		return nil, errSlots
	}
	var all []master
	for _, m := range bySlot {
		slices.SortFunc(m.slots, func(a, b [2]int) int { return a[0] - b[0] })
		all = append(all, *m)
	}
	return all, nil
}

// readRange reads an element of the reply to CLUSTER SLOTS: the first and the last slot, and the master's
// host and port. An empty host is that of the server that replies.
func readRange(r rueidis.RedisMessage, own string) (addr string, from, to int, err error) {
	fields, err := r.ToArray()
	if err != nil || len(fields) < 3 {
		return "", 0, 0, errSlots
	}
	first, err1 := fields[0].ToInt64()
	last, err2 := fields[1].ToInt64()
	node, err3 := fields[2].ToArray()
	if errors.Join(err1, err2, err3) != nil || first < 0 || last < first || last >= slotCount || len(node) < 2 {
		return "", 0, 0, errSlots
	}
	host, _ := node[0].ToString() // null: unknown
	port, err := node[1].ToInt64()
	if err != nil || port < 1 || port > 65535 {
		return "", 0, 0, errSlots
	}
	if host == "" || host == "?" {
		host = own
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10)), int(first), int(last), nil
}

// askSentinels returns the master that a Sentinel names. While the master that is used is lost, another
// Sentinel is asked each time.
func (c *Client) askSentinels(ctx context.Context) (masters []master, err error) {
	if c.sentinel != nil && c.Topology().Servers[0].Lost() {
		c.sentinel.Close()
		c.sentinel = nil
		c.seeds = append(slices.Clone(c.seeds[1:]), c.seeds[0])
	}
	for range c.seeds {
		if masters, err = c.askSentinel(ctx); err == nil {
			return masters, nil
		}
		if c.sentinel != nil {
			c.sentinel.Close()
			c.sentinel = nil
		}
		c.seeds = append(slices.Clone(c.seeds[1:]), c.seeds[0])
	}
	return nil, err
}

// askSentinel asks one Sentinel.
func (c *Client) askSentinel(ctx context.Context) ([]master, error) {
	if c.sentinel == nil {
		conn, err := c.dialSentinel(c.seeds[0])
		if err != nil {
			return nil, err
		}
		c.sentinel = conn
	}
	ctx, cancel := context.WithTimeout(ctx, c.AtLeast(identifyTimeout))
	defer cancel()
	addr, err := c.sentinel.Do(ctx, c.sentinel.B().SentinelGetMasterAddrByName().Master(c.masterSet).Build()).AsStrSlice()
	if err != nil {
		return nil, err
	}
	if len(addr) != 2 {
		return nil, errors.New("the Sentinel returned no address; does it know the master_set of redis.url?")
	}
	return []master{{addr: net.JoinHostPort(addr[0], addr[1])}}, nil
}

// dialSentinel connects to a Sentinel. Most have no password. One that requires it gets that of the URL.
func (c *Client) dialSentinel(addr string) (rueidis.Client, error) {
	plain := &Client{option: c.option}
	plain.option.Username, plain.option.Password, plain.option.SelectDB = "", "", 0
	conn, err := plain.dial(addr)
	if err != nil && strings.Contains(err.Error(), "NOAUTH") {
		plain.option.Username, plain.option.Password = c.option.Username, c.option.Password
		return plain.dial(addr)
	}
	return conn, err
}
