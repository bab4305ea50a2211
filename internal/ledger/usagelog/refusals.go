package usagelog

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// RefusalSuffix ends the name of the topic or stream of refused requests. Before it is that of usage events.
const RefusalSuffix = "-refusals"

// RefusalEvent is how many requests of a key a process of a gateway has refused in a minute, or one of these requests.
// The count is a total: the highest of a log, minute, key and reason holds.
type RefusalEvent struct {
	Version int          `json:"v"`
	Log     string       `json:"log"`
	Node    string       `json:"service.instance.id,omitzero"`
	Org     string       `json:"org,omitzero"`
	Team    string       `json:"team,omitzero"`
	Key     string       `json:"key,omitzero"`
	Reason  usage.Reason `json:"refused,omitzero"`
	Minute  time.Time    `json:"minute,omitzero"`
	Count   int64        `json:"count,omitzero"`
	Request *Event       `json:"request,omitzero"` // then it has no count
}

// Refusals sends refused requests to a log of their own, in one partition. They are in no sums, so consumers need no
// positions: what is sent twice changes nothing.
type Refusals struct {
	producer Producer
	key      Key
	node     string
}

// NewRefusals returns what sends the refusals of a node. Its key must differ from that of usage events: in their log
// the name of a message has positions.
func NewRefusals(p Producer, key Key, node string) *Refusals { return &Refusals{p, key, node} }

// AppendRefusals sends a batch.
func (r *Refusals) AppendRefusals(ctx context.Context, b usage.Refusals) error {
	var messages []Message
	add := func(e *RefusalEvent) error {
		e.Version = Version
		line, err := json.Marshal(e, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
		if err != nil {
			return err
		}
		last := len(messages) - 1
		if last < 0 || len(messages[last].Body)+len(line) >= maxMessage {
			messages = append(messages, Message{Name: Name{Log: r.node, To: time.Now().UnixNano() + int64(len(messages))}}) // brokers ignore a name that they have had
			last++
		}
		messages[last].Body = append(append(messages[last].Body, line...), '\n')
		return nil
	}
	for _, c := range b.Counts {
		if err := add(&RefusalEvent{Log: c.Log, Node: c.Node, Org: c.Org, Team: c.Team, Key: c.Key, Reason: c.Reason, Minute: c.Minute.UTC(), Count: c.Count}); err != nil {
			return err
		}
	}
	for i := range b.Rows {
		e := EventOf(r.node, 0, &b.Rows[i])
		if err := add(&RefusalEvent{Log: r.node, Request: &e}); err != nil {
			return err
		}
	}
	for i := range messages {
		messages[i].MAC = r.key.MAC(messages[i].String(), messages[i].Body)
	}
	return r.producer.Produce(ctx, messages)
}

// DecodeRefusals decodes a message. Malformed events, and those of a newer version, are left out; bad counts them.
func DecodeRefusals(body []byte) (b usage.Refusals, bad int) {
	if len(body) > maxMessageRead {
		return b, 1
	}
	for line := range bytes.Lines(body) {
		if err := decodeRefusal(&b, line); err != nil {
			bad++
		}
	}
	return b, bad
}

var errRefusal = errors.New("usagelog: an event of a refused request has neither a count nor a request")

func decodeRefusal(b *usage.Refusals, line []byte) error {
	var e RefusalEvent
	err := json.Unmarshal(line, &e, jsontext.AllowInvalidUTF8(true))
	switch {
	case err != nil:
		return err
	case e.Version != Version:
		return ErrVersion
	case e.Request != nil && e.Request.ID != "" && e.Request.Outcome == string(usage.Refused):
		row := e.Request.Row()
		b.Rows = append(b.Rows, row)
	case e.Count > 0 && e.Log != "" && e.Reason != "":
		b.Counts = append(b.Counts, usage.RefusalCount{Log: e.Log, Node: e.Node, Org: e.Org, Team: e.Team, Key: e.Key, Reason: e.Reason, Minute: boundTime(e.Minute), Count: e.Count})
	default:
		return errRefusal
	}
	return nil
}
