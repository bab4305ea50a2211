//go:build testunit

package openaichat

import (
	"encoding/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// tagged makes the dialect read the unit of a test: its maximum from the member test_unit_max of a request, and its amount
// from the member test_unit of usage.
func tagged(chat *codec.Dialect) *codec.Dialect {
	read := chat.Read
	chat.Read = func(at codec.Location, body *wire.Index) (codec.Head, *llm.Error) {
		head, err := read(at, body)
		var r struct {
			Max int64 `json:"test_unit_max"`
		}
		_ = json.Unmarshal(body.Text(), &r) // a body that cannot be read has none
		head.MaxOther[llm.TestUnit-llm.FieldCount] = r.Max
		return head, err
	}
	chat.Codec = unitCodec{chat.Codec}
	return chat
}

type unitCodec struct{ protocol.Translator }

func (c unitCodec) NewTap(choices int) protocol.Tap {
	return &unitTap{Tap: c.Translator.NewTap(choices)}
}

// unitTap reads the amount of the unit beside what its tap reads.
type unitTap struct {
	protocol.Tap
	amount int64
}

func (t *unitTap) read(data []byte) {
	var r struct {
		Usage struct {
			Amount int64 `json:"test_unit"`
		} `json:"usage"`
	}
	if json.Unmarshal(data, &r) == nil && r.Usage.Amount != 0 {
		t.amount = r.Usage.Amount
	}
}

func (t *unitTap) Event(data []byte) protocol.Mark {
	t.read(data)
	return t.Tap.Event(data)
}

func (t *unitTap) Body(body []byte) *llm.Error {
	t.read(body)
	return t.Tap.Body(body)
}

func (t *unitTap) Summary() protocol.Summary {
	s := t.Tap.Summary()
	if s.Usage != nil {
		u := *s.Usage
		*u.At(llm.TestUnit) = t.amount
		s.Usage = &u
	}
	return s
}
