package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// broker is a server of NATS JetStream that the attacker runs, with one stream of one partition. It speaks as
// much of the protocol as a consumer needs.
type broker struct {
	net.Listener

	mu      sync.Mutex
	records []record // the sequence number of each is its place, from 1
	open    map[net.Conn]bool
}

// record is a message of the stream. The header has its lines.
type record struct{ header, body string }

const stream = "redteam"

func newBroker() *broker {
	b := &broker{Listener: testrig.Must(net.Listen("tcp", "127.0.0.1:0")), open: map[net.Conn]bool{}}
	go func() {
		for c, err := b.Accept(); err == nil; c, err = b.Accept() {
			b.mu.Lock()
			b.open[c] = true
			b.mu.Unlock()
			go b.serve(c)
		}
	}()
	return b
}

func (b *broker) close() {
	_ = b.Close() // no new connections
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.open {
		_ = c.Close()
	}
}

// add appends a message and returns its sequence number.
func (b *broker) add(header, body string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records = append(b.records, record{header, body})
	return len(b.records)
}

// link is a connection of a client: the subjects it listens to, by the number of the subscription.
type link struct {
	conn net.Conn
	out  sync.Mutex
	mu   sync.Mutex
	subs map[string]string
	next map[string]int // of a consumer, by its name: the place of the next record
	seen map[string]int // records that a consumer got
}

// serve speaks with one client.
func (b *broker) serve(c net.Conn) {
	defer c.Close()
	l := &link{conn: c, subs: map[string]string{}, next: map[string]int{}, seen: map[string]int{}}
	l.write(`INFO {"server_id":"r","version":"2.11.0","proto":1,"headers":true,"jetstream":true,"max_payload":67108864}` + "\r\n")
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "PING":
			l.write("PONG\r\n")
		case words[0] == "SUB":
			l.mu.Lock()
			l.subs[words[len(words)-1]] = words[1]
			l.mu.Unlock()
		case words[0] == "UNSUB" && len(words) == 2:
			l.mu.Lock()
			delete(l.subs, words[1])
			l.mu.Unlock()
		case words[0] == "PUB", words[0] == "HPUB":
			size, _ := strconv.Atoi(words[len(words)-1]) // a client of NATS sends a number
			body := make([]byte, size+2)
			if _, err := io.ReadFull(in, body); err != nil {
				return
			}
			reply := ""
			if n := len(words); n == 4 && words[0] == "PUB" || n == 5 {
				reply = words[2]
			}
			head := 0
			if words[0] == "HPUB" {
				head, _ = strconv.Atoi(words[len(words)-2])
			}
			go b.answer(l, words[1], reply, string(body[:head]), string(body[head:size]))
		}
	}
}

func (l *link) write(text string) {
	l.out.Lock()
	defer l.out.Unlock()
	_, _ = io.WriteString(l.conn, text) // to a client that may have gone
}

// send sends a message to whoever listens to a subject.
func (l *link) send(subject, reply, header, body string) {
	l.mu.Lock()
	sid := ""
	for id, pattern := range l.subs {
		if pattern == subject || strings.HasSuffix(pattern, "*") && strings.HasPrefix(subject, strings.TrimSuffix(pattern, "*")) {
			sid = id
		}
	}
	l.mu.Unlock()
	if sid == "" {
		return
	}
	if reply != "" {
		reply += " "
	}
	if header == "" {
		l.write(fmt.Sprintf("MSG %s %s %s%d\r\n%s\r\n", subject, sid, reply, len(body), body))
		return
	}
	l.write(fmt.Sprintf("HMSG %s %s %s%d %d\r\n%s%s\r\n", subject, sid, reply, len(header), len(header)+len(body), header, body))
}

// answer answers a request of a client by its subject.
func (b *broker) answer(l *link, subject, reply, header, body string) {
	part := strings.Split(subject, ".")
	switch {
	case strings.HasPrefix(subject, "$JS.API.STREAM.INFO."):
		b.mu.Lock()
		last := len(b.records)
		b.mu.Unlock()
		l.send(reply, "", "", fmt.Sprintf(`{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":%q,"subjects":["%s.*"]},"created":"2026-01-01T00:00:00Z","state":{"messages":%d,"first_seq":1,"last_seq":%[3]d,"consumer_count":0}}`, stream, stream, last))
	case strings.HasPrefix(subject, "$JS.API.CONSUMER.CREATE."):
		name := part[5]
		l.mu.Lock()
		l.next[name], l.seen[name] = firstOf(body), 0
		l.mu.Unlock()
		l.send(reply, "", "", fmt.Sprintf(`{"type":"io.nats.jetstream.api.v1.consumer_create_response","stream_name":%q,"name":%q,"created":"2026-01-01T00:00:00Z","config":{"name":%[2]q,"deliver_policy":"by_start_sequence","ack_policy":"none"}}`, stream, name))
	case strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT."):
		b.fetch(l, part[len(part)-1], reply)
	case strings.HasPrefix(subject, "$JS.API."):
		l.send(reply, "", "", `{"success":true}`)
	case strings.HasPrefix(subject, stream+"."):
		_, lines, _ := strings.Cut(header, "\r\n") // after the version
		l.send(reply, "", "", fmt.Sprintf(`{"stream":%q,"seq":%d}`, stream, b.add(strings.TrimSuffix(lines, "\r\n"), body)))
	}
}

// firstOf returns the place of the record with which a new consumer begins.
func firstOf(body string) int {
	m := regexp.MustCompile(`"opt_start_seq":(\d+)`).FindStringSubmatch(body)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // digits
	return max(n-1, 0)
}

// fetch sends the records that a consumer has not got, and then the end of the batch.
func (b *broker) fetch(l *link, name, reply string) {
	var list []record
	time.Sleep(50 * time.Millisecond) // else an idle consumer asks without a pause
	b.mu.Lock()
	l.mu.Lock()
	from := l.next[name]
	list = append(list, b.records[min(from, len(b.records)):]...)
	l.next[name] = len(b.records)
	l.mu.Unlock()
	b.mu.Unlock()
	for i, one := range list {
		l.mu.Lock()
		l.seen[name]++
		seen := l.seen[name]
		l.mu.Unlock()
		ack := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", stream, name, from+i+1, seen, time.Now().UnixNano())
		l.send(reply, ack, "NATS/1.0\r\n"+one.header+"\r\n", one.body)
	}
	l.send(reply, "", "NATS/1.0 408 Request Timeout\r\n\r\n", "")
}
