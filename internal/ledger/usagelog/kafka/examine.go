package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
)

// Examine returns the facts of the brokers and the topic. It creates nothing.
func (l *Log) Examine(ctx context.Context) (f usagelog.Facts, err error) {
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(l.o.Topic)
	r := kmsg.NewPtrMetadataRequest()
	r.Topics = append(r.Topics, t) // AllowAutoTopicCreation is false
	begun := time.Now()
	response, err := r.RequestWith(ctx, l.client)
	if f.Latency = time.Since(begun); err != nil {
		return f, l.explain(err)
	}
	f.Servers = len(response.Brokers)
	if len(response.Topics) != 1 {
		return f, errors.New("the broker says nothing of the topic")
	}
	topic := &response.Topics[0]
	switch err := kerr.ErrorForCode(topic.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		f.Missing = true
		return f, nil
	case err != nil:
		return f, fmt.Errorf("the topic %s: %w", l.o.Topic, err)
	}
	f.Partitions = len(topic.Partitions)
	for i := range topic.Partitions {
		if n := len(topic.Partitions[i].Replicas); i == 0 || n < f.Replicas {
			f.Replicas = n
		}
	}
	f.Weaknesses, err = l.Weaknesses(ctx)
	if err != nil { // the account may not read them
		f.Weaknesses = nil
	}
	return f, nil
}

// explain adds the cause of an error, if the settings are it. A broker that wants TLS or an account closes the connection
// without a word.
func (l *Log) explain(err error) error {
	var closed *kgo.ErrFirstReadEOF
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("%w: %w", usagelog.ErrAccount, err)
	case !l.o.TLS && (errors.As(err, &closed) || strings.Contains(err.Error(), "tls alert")):
		return fmt.Errorf("%w: %w", usagelog.ErrPlain, err)
	case errors.As(err, &closed) && l.o.Username == "":
		return fmt.Errorf("%w: %w", usagelog.ErrNoAccount, err)
	}
	return err
}
