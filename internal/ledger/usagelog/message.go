package usagelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Header is the name of the message header that has the name of the batch.
const Header = "isogloss-batch"

// Bounds of a message. Brokers accept 1 MiB by default.
const (
	maxMessage     = 512 << 10 // bytes; a larger event is a message of its own
	maxMessageRead = 8 << 20   // bytes that a consumer decodes
)

// Name is the name of a batch: a part of a log, as far as its events are in one partition.
type Name struct {
	Log       string
	Partition int
	// After is the position of the event before the batch in the same log and partition; 0: there is none. A
	// reader that does not have it has missed a batch.
	After int64
	To    int64 // position of the last event; After, if there is none
}

func (n Name) String() string {
	return fmt.Sprintf("%s/%d/%d/%d", n.Log, n.Partition, n.After, n.To)
}

// ParseName parses the text of a name.
func ParseName(text string) (n Name, err error) {
	parts := strings.Split(text, "/")
	if len(parts) != 4 || parts[0] == "" || len(text) > 512 {
		return n, errors.New("usagelog: the name of a batch is not LOG/PARTITION/AFTER/TO")
	}
	part, err1 := strconv.Atoi(parts[1])
	after, err2 := strconv.ParseInt(parts[2], 10, 64)
	to, err3 := strconv.ParseInt(parts[3], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil || part < 0 || part >= MaxPartitions || after < 0 || to < after {
		return n, errors.New("usagelog: the name of a batch has numbers out of range")
	}
	return Name{parts[0], part, after, to}, nil
}

// Message is a batch with its events, one on each line.
type Message struct {
	Name
	Body  []byte
	MAC   string // of the name and the body
	first int64  // position of the first event
}

// Record is a message that was read.
type Record struct {
	Offset int64
	Header string // name of the batch
	MAC    string
	Body   []byte
}

// Reader reads a partition of a log.
type Reader interface {
	// Read returns the next messages in the order of their offsets, none after about half a second without
	// any.
	Read(ctx context.Context) ([]Record, error)
	Close()
}

// Log is a log with partitions.
type Log interface {
	// Name identifies the log.
	Name() string
	// Create creates the log if it is not there.
	Create(ctx context.Context) error
	// Open reads a partition from an offset, or from the oldest message if the log has no longer or not yet
	// the one at the offset.
	Open(ctx context.Context, partition int, offset int64) (Reader, error)
	Close()
}

// Newer is an event of a newer major version, as it was read.
type Newer struct {
	Position int64
	Event    string
}

// Events decodes the events. Malformed ones are left out; bad counts them. Those of a newer major version are in
// newer.
func (m *Message) Events() (list []Event, newer []Newer, bad int) {
	if len(m.Body) > maxMessageRead {
		return nil, nil, 1
	}
	for line := range bytes.Lines(m.Body) {
		e, err := DecodeEvent(line)
		switch {
		case errors.Is(err, ErrVersion):
			newer = append(newer, Newer{m.positionOf(line), strings.ToValidUTF8(string(line), "\uFFFD")})
		case err != nil || e.Log != m.Log || e.Position > m.To:
			bad++
		default:
			list = append(list, e)
		}
	}
	return list, newer, bad
}

// positionOf returns the position of an event of a newer version, which may be somewhere else there: that of the
// message then.
func (m *Message) positionOf(line []byte) int64 {
	var e struct {
		Position int64 `json:"position"`
	}
	if json.Unmarshal(line, &e, jsontext.AllowInvalidUTF8(true)) != nil || e.Position < 1 || e.Position > m.To {
		return m.To
	}
	return e.Position
}

// MaxPartitions bounds the partitions of a log.
const MaxPartitions = 256

// spread is the number of partitions that the events of one organisation may have. Those of one log are all
// in one.
const spread = 8

// partitionOf returns the partition of an organisation's events in a log. It never changes for a log: events
// that are sent again are in the same partition, where their positions show that they were there.
func partitionOf(org, log string, partitions int) int {
	return int((hash(org) + hash(log)%spread) % uint64(partitions))
}

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // a hash never fails
	return h.Sum64()
}
