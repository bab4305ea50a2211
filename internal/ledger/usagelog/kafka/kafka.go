// Package kafka is a log of usage events in a topic of Kafka.
package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
)

// Bounds of the connection.
const (
	maxBuffered = 64 << 20 // bytes that wait for the brokers
	maxFetch    = 8 << 20  // bytes of a response
	readWait    = 500 * time.Millisecond
	requestTime = 10 * time.Second
)

// Log is a topic.
type Log struct {
	o      Settings
	tls    *tls.Config // nil: none
	client *kgo.Client // produces
}

// New returns a topic, over TLS if c is not nil. It connects when it is used.
func New(o Settings, c *tls.Config) (*Log, error) {
	client, err := kgo.NewClient(append(o.common(c),
		kgo.DefaultProduceTopic(o.Topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()), // with the idempotent producer, which is the default
		kgo.ProduceRequestTimeout(requestTime),
		kgo.MaxBufferedBytes(maxBuffered),
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.ZstdCompression(), kgo.SnappyCompression(), kgo.NoCompression()),
	)...)
	if err != nil {
		return nil, fmt.Errorf("usage.sink.kafka: %w", err)
	}
	return &Log{o: o, tls: c, client: client}, nil
}

func (o *Settings) common(c *tls.Config) []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(o.Brokers...), kgo.ClientID("isogloss"), kgo.RequestTimeoutOverhead(requestTime)}
	if c != nil {
		opts = append(opts, kgo.DialTLSConfig(c))
	}
	switch auth := (scram.Auth{User: o.Username, Pass: o.Password.Reveal()}); o.Mechanism {
	case "plain":
		opts = append(opts, kgo.SASL(plain.Auth{User: o.Username, Pass: o.Password.Reveal()}.AsMechanism()))
	case "scram-sha-256":
		opts = append(opts, kgo.SASL(auth.AsSha256Mechanism()))
	case "scram-sha-512":
		opts = append(opts, kgo.SASL(auth.AsSha512Mechanism()))
	}
	return opts
}

// Name returns the name of the log.
func (l *Log) Name() string { return "kafka:" + l.o.Topic }

// Close closes the connections.
func (l *Log) Close() { l.client.Close() }

// Produce writes messages.
func (l *Log) Produce(ctx context.Context, messages []usagelog.Message) error {
	records := make([]*kgo.Record, len(messages))
	for i := range messages {
		m := &messages[i]
		records[i] = &kgo.Record{Partition: int32(m.Partition), Key: []byte(m.Log), Value: m.Body,
			Headers: []kgo.RecordHeader{{Key: usagelog.Header, Value: []byte(m.String())}, {Key: usagelog.MACHeader, Value: []byte(m.MAC)}}}
	}
	return l.client.ProduceSync(ctx, records...).FirstErr()
}

// Create creates the topic if it is not there.
func (l *Log) Create(ctx context.Context) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = l.o.Topic, int32(l.o.Partitions), int16(l.o.Replicas)
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Topics, r.TimeoutMillis = append(r.Topics, t), int32(requestTime/time.Millisecond)
	response, err := r.RequestWith(ctx, l.client)
	if err != nil {
		return err
	}
	for i := range response.Topics {
		if err := kerr.ErrorForCode(response.Topics[i].ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("topic %s is not created: %w", l.o.Topic, err)
		}
	}
	return nil
}

// Open reads a partition from an offset.
func (l *Log) Open(_ context.Context, partition int, offset int64) (usagelog.Reader, error) {
	c, err := kgo.NewClient(append(l.o.common(l.tls),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.o.Topic: {int32(partition): kgo.NewOffset().At(offset)}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(maxFetch), kgo.FetchMaxPartitionBytes(maxFetch), kgo.FetchMaxWait(readWait),
		kgo.MaxConcurrentFetches(1),
	)...)
	if err != nil {
		return nil, err
	}
	return &reader{c}, nil
}

type reader struct{ client *kgo.Client }

func (r *reader) Close() { r.client.Close() }

// Read returns the next messages.
func (r *reader) Read(ctx context.Context) (out []usagelog.Record, err error) {
	wait, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	fetches := r.client.PollRecords(wait, 1000)
	fetches.EachError(func(_ string, _ int32, e error) {
		if !errors.Is(e, context.DeadlineExceeded) && !errors.Is(e, context.Canceled) {
			err = e
		}
	})
	fetches.EachRecord(func(k *kgo.Record) {
		one := usagelog.Record{Offset: k.Offset, Body: k.Value}
		for _, h := range k.Headers {
			switch h.Key {
			case usagelog.Header:
				one.Header = string(h.Value)
			case usagelog.MACHeader:
				one.MAC = string(h.Value)
			}
		}
		out = append(out, one)
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return out, err
}
