package spool

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Bodies of records use the protocol buffers wire format: numbered fields, and fields that
// are zero are left out. During an upgrade, releases that know more and fewer fields share
// a folder and read each other's records.
//
// Field numbers never change. Add new ones at the end.

// kind is the first byte of a record's body.
type kind byte

const (
	kindBegun    kind = 1
	kindEnded    kind = 2
	kindReserved kind = 3
)

var errRecord = errors.New("usage: a record that cannot be read")

// encoder appends fields.
type encoder struct{ b []byte }

// maxText is the maximum length of a text in bytes. Callers limit the texts of clients to less. maxText
// makes sure that a record can be written even if a caller does not.
const maxText = 1 << 10

// text writes at most maxText bytes, in whole characters.
func (e *encoder) text(n protowire.Number, s string) {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	if s != "" {
		e.b = protowire.AppendString(protowire.AppendTag(e.b, n, protowire.BytesType), s)
	}
}

func (e *encoder) int(n protowire.Number, v int64) {
	if v != 0 {
		e.b = protowire.AppendVarint(protowire.AppendTag(e.b, n, protowire.VarintType), protowire.EncodeZigZag(v))
	}
}

func (e *encoder) flag(n protowire.Number, v bool) {
	if v {
		e.int(n, 1)
	}
}

// time writes nanoseconds without the time zone.
func (e *encoder) time(n protowire.Number, t time.Time) {
	if !t.IsZero() {
		e.int(n, t.UnixNano())
	}
}

// money writes zero too: a cost of zero is not an unknown cost.
func (e *encoder) money(n protowire.Number, m *usage.Money) {
	if m != nil {
		e.b = protowire.AppendVarint(protowire.AppendTag(e.b, n, protowire.VarintType), protowire.EncodeZigZag(int64(*m)))
	}
}

// usage uses five field numbers from n.
func (e *encoder) usage(n protowire.Number, u llm.Usage) {
	e.int(n, u.Input)
	e.int(n+1, u.CacheRead)
	e.int(n+2, u.CacheWrite)
	e.int(n+3, u.Output)
	e.int(n+4, u.Reasoning)
}

// group writes nested fields. A group needs no length in advance, and so no second buffer.
func (e *encoder) group(n protowire.Number, fields func(*encoder)) {
	e.b = protowire.AppendTag(e.b, n, protowire.StartGroupType)
	fields(e)
	e.b = protowire.AppendTag(e.b, n, protowire.EndGroupType)
}

func (e *encoder) opening(o *Opening) {
	e.text(1, o.ID)
	e.text(2, o.Node)
	e.text(3, o.Key)
	e.text(4, o.Team)
	e.text(5, o.Org)
	e.time(6, o.Began)
	e.text(7, o.Endpoint)
	e.text(8, o.Dialect)
	e.text(9, o.Model)
	e.text(10, o.Target)
	e.flag(11, o.Stream)
	e.int(12, o.Prompt)
	if o.Price != nil {
		e.group(13, func(e *encoder) { e.price(o.Price) })
	}
	e.int(16, int64(o.Reserved))
	e.labels(fieldOpeningUser, &o.Labels)
	e.client(fieldOpeningClient, &o.Client)
}

// client uses three field numbers from n.
func (e *encoder) client(n protowire.Number, c *usage.Client) {
	e.text(n, c.Person)
	e.text(n+1, c.Agent)
	e.text(n+2, c.Trace)
}

// decodeClient sets one of the three texts of a client.
func decodeClient(c *usage.Client, n protowire.Number, text []byte) {
	switch n {
	case 0:
		c.Person = string(text)
	case 1:
		c.Agent = string(text)
	case 2:
		c.Trace = string(text)
	}
}

// labels uses two field numbers from n: the end user and the tags.
func (e *encoder) labels(n protowire.Number, l *usage.Labels) {
	e.text(n, l.User)
	for i := range l.Tags {
		e.group(n+1, func(e *encoder) {
			e.text(1, l.Tags[i].Key)
			e.text(2, l.Tags[i].Value)
		})
	}
}

// decodeTag appends a tag to tags.
func decodeTag(tags []usage.Tag, b []byte) ([]usage.Tag, error) {
	var t usage.Tag
	err := eachField(b, func(f field) error {
		switch f.n {
		case 1:
			t.Key = string(f.text)
		case 2:
			t.Value = string(f.text)
		}
		return nil
	})
	return append(tags, t), err
}

// Fields of an opening that the spool adds.
const (
	fieldSlot = 14
	fieldTag  = 15
)

// Fields of the labels of an opening and of a row.
const (
	fieldOpeningUser protowire.Number = 17 // and 18
	fieldRowUser     protowire.Number = 27 // and 28
)

// Fields of the client of an opening and of a row.
const (
	fieldOpeningClient protowire.Number = 19 // to 21
	fieldRowClient     protowire.Number = 29 // to 31
)

// Fields of a row: how the response came about.
const (
	fieldFidelity   protowire.Number = 32
	fieldLoss       protowire.Number = 33
	fieldMoreLosses protowire.Number = 34
	fieldQueue      protowire.Number = 35
	fieldFirstByte  protowire.Number = 36
	fieldFirstToken protowire.Number = 37
)

// Fields of a row that the spool adds.
const (
	fieldPosition protowire.Number = 23
	fieldTotals   protowire.Number = 24 // to 26
)

// ended is a row as stored on disk.
type ended struct {
	usage.Row
	position int64        // 1 for the first row of a log; 0: written by an older release
	totals   usage.Totals // after the row
}

// positionAndTotals adds to the record of a row the fields that only the spool knows.
func (e *encoder) positionAndTotals(position int64, t usage.Totals) {
	e.int(fieldPosition, position)
	e.int(fieldTotals, int64(t.Key))
	e.int(fieldTotals+1, int64(t.Team))
	e.int(fieldTotals+2, int64(t.Org))
}

// reserved is the reservation of an open request after it was extended.
type reserved struct {
	id     string
	amount usage.Money
}

func (e *encoder) reserved(r reserved) {
	e.text(1, r.id)
	e.int(2, int64(r.amount))
}

func decodeReserved(b []byte) (r reserved, err error) {
	err = eachField(b, func(f field) error {
		switch f.n {
		case 1:
			r.id = string(f.text)
		case 2:
			r.amount = usage.Money(f.int)
		}
		return nil
	})
	return r, err
}

func (e *encoder) price(p *usage.Price) {
	e.int(1, int64(p.Input))
	e.int(2, int64(p.CacheRead))
	e.int(3, int64(p.CacheWrite))
	e.int(4, int64(p.Output))
	e.int(5, int64(p.Reasoning))
	e.int(6, int64(p.Request))
	e.int(7, p.Context)
	e.int(8, p.Above)
	if p.Long != nil {
		e.group(9, func(e *encoder) { e.price(p.Long) })
	}
	e.flag(10, p.Ceiling)
}

func (e *encoder) row(r *usage.Row) {
	e.text(1, r.ID)
	e.text(2, r.Node)
	e.text(3, r.Key)
	e.text(4, r.Team)
	e.text(5, r.Org)
	e.time(6, r.Began)
	e.int(7, int64(r.Took))
	e.text(8, r.Endpoint)
	e.text(9, r.Dialect)
	e.text(10, r.Model)
	e.text(11, r.Target)
	e.flag(12, r.Stream)
	e.int(13, int64(r.Status))
	e.text(14, string(r.Outcome))
	e.usage(15, r.Usage)
	e.flag(20, r.Estimated)
	e.money(21, r.Cost)
	for i := range r.Attempts {
		e.group(22, func(e *encoder) { e.attempt(&r.Attempts[i]) })
	}
	e.labels(fieldRowUser, &r.Labels)
	e.client(fieldRowClient, &r.Client)
	e.text(fieldFidelity, r.Fidelity)
	for i := range r.Losses {
		e.group(fieldLoss, func(e *encoder) {
			e.text(1, r.Losses[i].Code)
			e.text(2, r.Losses[i].Path)
		})
	}
	e.int(fieldMoreLosses, int64(r.MoreLosses))
	e.int(fieldQueue, int64(r.Queue))
	e.int(fieldFirstByte, int64(r.FirstByte))
	e.int(fieldFirstToken, int64(r.FirstToken))
}

func (e *encoder) attempt(a *usage.Attempt) {
	e.text(1, a.Target)
	e.time(2, a.Began)
	e.int(3, int64(a.Took))
	e.int(4, int64(a.Status))
	e.text(5, a.Fault)
	e.usage(6, a.Usage)
	e.money(11, a.Cost)
	e.flag(12, a.Charged)
	e.int(13, int64(a.Connect))
	e.int(14, int64(a.FirstByte))
	e.int(15, int64(a.FirstToken))
	e.int(16, int64(a.Rates.Input))
	e.int(17, int64(a.Rates.CacheRead))
	e.int(18, int64(a.Rates.CacheWrite))
	e.int(19, int64(a.Rates.Output))
	e.int(20, int64(a.Rates.Reasoning))
	e.int(21, int64(a.Rates.Request))
}

// field is a decoded field. Only the part of its type is set.
type field struct {
	n    protowire.Number
	int  int64
	text []byte // text, or the fields of a group
}

// money returns a copy: a pointer into the field would move every field to the heap.
func (f *field) money() *usage.Money {
	m := usage.Money(f.int)
	return &m
}

func (f *field) time() time.Time { return time.Unix(0, f.int).UTC() }

// eachField calls take for each field. Fields of unknown types are skipped.
func eachField(b []byte, take func(f field) error) error {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errRecord
		}
		b = b[size:]
		f := field{n: n}
		switch typ {
		case protowire.VarintType:
			var v uint64
			v, size = protowire.ConsumeVarint(b)
			f.int = protowire.DecodeZigZag(v)
		case protowire.BytesType:
			f.text, size = protowire.ConsumeBytes(b)
		case protowire.StartGroupType:
			f.text, size = protowire.ConsumeGroup(n, b)
		default:
			size = protowire.ConsumeFieldValue(n, typ, b)
		}
		if size < 0 {
			return errRecord
		}
		b = b[size:]
		if err := take(f); err != nil {
			return err
		}
	}
	return nil
}

// decodeUsage sets one of the five counts of a usage.
func decodeUsage(u *llm.Usage, class protowire.Number, v int64) {
	switch class {
	case 0:
		u.Input = v
	case 1:
		u.CacheRead = v
	case 2:
		u.CacheWrite = v
	case 3:
		u.Output = v
	case 4:
		u.Reasoning = v
	}
}

// begun is an opening as stored on disk.
type begun struct {
	Opening
	slot int64
	tag  int64
}

func decodeBegun(b []byte) (o begun, err error) {
	err = eachField(b, func(f field) (err error) {
		switch f.n {
		case 1:
			o.ID = string(f.text)
		case 2:
			o.Node = string(f.text)
		case 3:
			o.Key = string(f.text)
		case 4:
			o.Team = string(f.text)
		case 5:
			o.Org = string(f.text)
		case 6:
			o.Began = f.time()
		case 7:
			o.Endpoint = string(f.text)
		case 8:
			o.Dialect = string(f.text)
		case 9:
			o.Model = string(f.text)
		case 10:
			o.Target = string(f.text)
		case 11:
			o.Stream = f.int != 0
		case 12:
			o.Prompt = f.int
		case 13:
			o.Price = new(usage.Price)
			err = decodePrice(o.Price, f.text, 1)
		case fieldSlot:
			o.slot = f.int
		case fieldTag:
			o.tag = f.int
		case 16:
			o.Reserved = usage.Money(f.int)
		case fieldOpeningUser:
			o.User = string(f.text)
		case fieldOpeningUser + 1:
			o.Tags, err = decodeTag(o.Tags, f.text)
		case fieldOpeningClient, fieldOpeningClient + 1, fieldOpeningClient + 2:
			decodeClient(&o.Client, f.n-fieldOpeningClient, f.text)
		}
		return err
	})
	if err == nil && o.ID == "" {
		err = errRecord
	}
	return o, err
}

// decodePrice reads a price, with nested prices up to the given depth.
func decodePrice(p *usage.Price, b []byte, deep int) error {
	return eachField(b, func(f field) error {
		switch f.n {
		case 1:
			p.Input = usage.Rate(f.int)
		case 2:
			p.CacheRead = usage.Rate(f.int)
		case 3:
			p.CacheWrite = usage.Rate(f.int)
		case 4:
			p.Output = usage.Rate(f.int)
		case 5:
			p.Reasoning = usage.Rate(f.int)
		case 6:
			p.Request = usage.Money(f.int)
		case 7:
			p.Context = f.int
		case 8:
			p.Above = f.int
		case 9:
			if deep == 0 {
				return errRecord
			}
			p.Long = new(usage.Price)
			return decodePrice(p.Long, f.text, deep-1)
		case 10:
			p.Ceiling = f.int != 0
		}
		return nil
	})
}

func decodeRow(b []byte) (r ended, err error) {
	err = eachField(b, func(f field) (err error) {
		switch f.n {
		case 1:
			r.ID = string(f.text)
		case 2:
			r.Node = string(f.text)
		case 3:
			r.Key = string(f.text)
		case 4:
			r.Team = string(f.text)
		case 5:
			r.Org = string(f.text)
		case 6:
			r.Began = f.time()
		case 7:
			r.Took = time.Duration(f.int)
		case 8:
			r.Endpoint = string(f.text)
		case 9:
			r.Dialect = string(f.text)
		case 10:
			r.Model = string(f.text)
		case 11:
			r.Target = string(f.text)
		case 12:
			r.Stream = f.int != 0
		case 13:
			r.Status = int(f.int)
		case 14:
			r.Outcome = usage.Outcome(f.text)
		case 15, 16, 17, 18, 19:
			decodeUsage(&r.Usage, f.n-15, f.int)
		case 20:
			r.Estimated = f.int != 0
		case 21:
			r.Cost = f.money()
		case 22:
			var a usage.Attempt
			err = decodeAttempt(&a, f.text)
			r.Attempts = append(r.Attempts, a)
		case fieldPosition:
			r.position = f.int
		case fieldTotals:
			r.totals.Key = usage.Money(f.int)
		case fieldTotals + 1:
			r.totals.Team = usage.Money(f.int)
		case fieldTotals + 2:
			r.totals.Org = usage.Money(f.int)
		case fieldRowUser:
			r.User = string(f.text)
		case fieldRowUser + 1:
			r.Tags, err = decodeTag(r.Tags, f.text)
		default:
			err = decodeResponse(&r.Row, &f)
		}
		return err
	})
	if err == nil && r.ID == "" {
		err = errRecord
	}
	return r, err
}

// decodeResponse sets a field of a row about its client or its response.
func decodeResponse(r *usage.Row, f *field) (err error) {
	switch f.n {
	case fieldRowClient, fieldRowClient + 1, fieldRowClient + 2:
		decodeClient(&r.Client, f.n-fieldRowClient, f.text)
	case fieldFidelity:
		r.Fidelity = string(f.text)
	case fieldLoss:
		var pair []usage.Tag
		pair, err = decodeTag(nil, f.text)
		r.Losses = append(r.Losses, usage.Loss{Code: pair[0].Key, Path: pair[0].Value})
	case fieldMoreLosses:
		r.MoreLosses = int(f.int)
	case fieldQueue:
		r.Queue = time.Duration(f.int)
	case fieldFirstByte:
		r.FirstByte = time.Duration(f.int)
	case fieldFirstToken:
		r.FirstToken = time.Duration(f.int)
	}
	return err
}

func decodeAttempt(a *usage.Attempt, b []byte) error {
	return eachField(b, func(f field) error {
		switch f.n {
		case 1:
			a.Target = string(f.text)
		case 2:
			a.Began = f.time()
		case 3:
			a.Took = time.Duration(f.int)
		case 4:
			a.Status = int(f.int)
		case 5:
			a.Fault = string(f.text)
		case 6, 7, 8, 9, 10:
			decodeUsage(&a.Usage, f.n-6, f.int)
		case 11:
			a.Cost = f.money()
		case 12:
			a.Charged = f.int != 0
		default:
			decodeTimes(a, &f)
		}
		return nil
	})
}

// decodeTimes sets a time or a rate of an attempt.
func decodeTimes(a *usage.Attempt, f *field) {
	switch f.n {
	case 13:
		a.Connect = time.Duration(f.int)
	case 14:
		a.FirstByte = time.Duration(f.int)
	case 15:
		a.FirstToken = time.Duration(f.int)
	case 16:
		a.Rates.Input = usage.Rate(f.int)
	case 17:
		a.Rates.CacheRead = usage.Rate(f.int)
	case 18:
		a.Rates.CacheWrite = usage.Rate(f.int)
	case 19:
		a.Rates.Output = usage.Rate(f.int)
	case 20:
		a.Rates.Reasoning = usage.Rate(f.int)
	case 21:
		a.Rates.Request = usage.Money(f.int)
	}
}
