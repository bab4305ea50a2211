// Package nats is a log of usage events in a stream of NATS JetStream.
package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
)

// Bounds of the connection.
const (
	maxPending = 64 // messages that wait for the server
	maxFetch   = 256
	readWait   = 500 * time.Millisecond
	callTime   = 10 * time.Second
	// duplicates is how long the server recognises a message that is sent again. Consumers recognise it at any
	// time.
	duplicates = 2 * time.Minute
)

// Log is a stream.
type Log struct {
	o   Settings
	tls *tls.Config // nil: none, unless the servers require it

	mu   sync.Mutex
	conn *nats.Conn
	js   jetstream.JetStream
}

// New returns a stream. It connects when it is used.
func New(o Settings, c *tls.Config) *Log { return &Log{o: o, tls: c} }

// Name returns the name of the log.
func (l *Log) Name() string { return "nats:" + l.o.Stream }

// Close closes the connection.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.Close()
	}
}

func (l *Log) connect() (jetstream.JetStream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		return l.js, nil
	}
	opts := []nats.Option{nats.Name("isogloss"), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.Timeout(callTime), nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2)}
	if l.tls != nil {
		opts = append(opts, nats.Secure(l.tls))
	}
	if l.o.Username != "" {
		opts = append(opts, nats.UserInfo(l.o.Username, l.o.Password.Reveal()))
	}
	if l.o.Credentials != "" {
		opts = append(opts, nats.UserCredentials(l.o.Credentials))
	}
	c, err := nats.Connect(strings.Join(l.o.Servers, ","), opts...)
	if err != nil {
		return nil, fmt.Errorf("usage.sink.nats: %w", err)
	}
	js, err := jetstream.New(c)
	if err != nil {
		c.Close()
		return nil, err
	}
	l.conn, l.js = c, js
	return js, nil
}

func (l *Log) subject(partition int) string { return l.o.Stream + "." + strconv.Itoa(partition) }

// Produce writes messages. The server has stored them on a majority of its replicas when it acknowledges.
func (l *Log) Produce(ctx context.Context, messages []usagelog.Message) error {
	js, err := l.connect()
	if err != nil {
		return err
	}
	sem, failed := make(chan struct{}, maxPending), make(chan error, 1)
	var work sync.WaitGroup
	parts := map[int][]*usagelog.Message{}
	for i := range messages {
		parts[messages[i].Partition] = append(parts[messages[i].Partition], &messages[i])
	}
	for _, list := range parts { // the messages of a partition one after the other
		sem <- struct{}{}
		work.Go(func() {
			defer func() { <-sem }()
			for _, m := range list {
				if err := l.publish(ctx, js, m); err != nil {
					select {
					case failed <- err:
					default:
					}
					return
				}
			}
		})
	}
	work.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (l *Log) publish(ctx context.Context, js jetstream.JetStream, m *usagelog.Message) error {
	name := m.String()
	msg := nats.NewMsg(l.subject(m.Partition))
	msg.Data = m.Body
	msg.Header.Set(usagelog.Header, name)
	msg.Header.Set(usagelog.MACHeader, m.MAC)
	if len(m.Body) > 0 { // a probe may come again
		msg.Header.Set(nats.MsgIdHdr, name)
	}
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err := js.PublishMsg(call, msg, jetstream.WithExpectStream(l.o.Stream))
	return err
}

// Create creates the stream if it is not there.
func (l *Log) Create(ctx context.Context) error {
	js, err := l.connect()
	if err != nil {
		return err
	}
	if _, err = js.Stream(ctx, l.o.Stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: l.o.Stream, Subjects: []string{l.o.Stream + ".*"}, Replicas: l.o.Replicas, Storage: jetstream.FileStorage,
		Duplicates: duplicates, Discard: jetstream.DiscardNew, Description: "usage events of Isogloss"})
	return err
}

// Open reads a partition from a sequence number of the stream.
func (l *Log) Open(ctx context.Context, partition int, offset int64) (usagelog.Reader, error) {
	js, err := l.connect()
	if err != nil {
		return nil, err
	}
	r := &reader{js: js, stream: l.o.Stream, subject: l.subject(partition), next: uint64(max(offset, 1))}
	s, err := js.Stream(ctx, l.o.Stream)
	if err != nil {
		return nil, err
	}
	if last := s.CachedInfo().State.LastSeq; r.next > last+1 { // the stream was created again
		r.next = 1
	}
	return r, nil
}

// reader reads with a consumer that the server forgets. It creates another one after any error.
type reader struct {
	js              jetstream.JetStream
	stream, subject string
	next            uint64 // sequence number of the stream
	consumer        jetstream.Consumer
	seen            uint64 // sequence number of the consumer
}

func (r *reader) Close() {
	if r.consumer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.js.DeleteConsumer(ctx, r.stream, r.consumer.CachedInfo().Name) // it ends by itself otherwise
}

// Read returns the next messages.
func (r *reader) Read(ctx context.Context) (out []usagelog.Record, err error) {
	if r.consumer == nil {
		call, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		r.consumer, err = r.js.CreateConsumer(call, r.stream, jetstream.ConsumerConfig{FilterSubject: r.subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
			OptStartSeq: r.next, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute})
		if err != nil {
			r.consumer = nil
			return nil, err
		}
		r.seen = 0
	}
	batch, err := r.consumer.Fetch(maxFetch, jetstream.FetchMaxWait(readWait))
	if err != nil {
		r.consumer = nil
		return nil, err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil || meta.Sequence.Consumer != r.seen+1 || meta.Sequence.Stream < r.next { // a message was lost on its way
			r.consumer = nil
			break
		}
		r.seen, r.next = meta.Sequence.Consumer, meta.Sequence.Stream+1
		out = append(out, usagelog.Record{Offset: int64(meta.Sequence.Stream), Header: m.Headers().Get(usagelog.Header), MAC: m.Headers().Get(usagelog.MACHeader), Body: m.Data()})
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		r.consumer = nil
		if len(out) == 0 {
			return nil, err
		}
	}
	return out, nil
}
