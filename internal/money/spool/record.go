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
// Each kind of record has one list of its fields, a method of codec, which both writes and reads
// them. Field numbers never change. Add new ones at the end.

// kind is the first byte of a record's body.
type kind byte

const (
	kindBegun    kind = 1
	kindEnded    kind = 2
	kindReserved kind = 3
)

var errRecord = errors.New("usage: a record that cannot be read")

// codec writes or reads records. Each of its methods for a type of field writes the field that it is
// given, or sets the field if it is the next one to read. A codec that writes changes no field: requests
// share prices.
type codec struct {
	b       []byte // written
	reading bool
	rest    []byte // to be read, behind next
	next    field  // its number is 0 if there is none
	depth   int    // groups around the fields that are read
	err     error
}

// field is a field that was read. Only the part of its type is set.
type field struct {
	n    protowire.Number
	int  int64
	text []byte // text, or the fields of a group
}

// maxDepth is the maximum depth of groups: a price for long prompts is within a price.
const maxDepth = 2

// maxText is the maximum length of a text in bytes. Callers limit the texts of clients to less. maxText
// makes sure that a record can be written even if a caller does not.
const maxText = 1 << 10

// text writes at most maxText bytes, in whole characters.
func (c *codec) text(n protowire.Number, v *string) {
	if c.reading {
		if c.next.n == n {
			*v = string(c.next.text)
			c.advance()
		}
		return
	}
	s := *v
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	if s != "" {
		c.b = protowire.AppendString(protowire.AppendTag(c.b, n, protowire.BytesType), s)
	}
}

// number writes an integer.
func number[T ~int | ~int64](c *codec, n protowire.Number, v *T) {
	if c.reading {
		if c.next.n == n {
			*v = T(c.next.int)
			c.advance()
		}
	} else if *v != 0 {
		c.varint(n, int64(*v))
	}
}

func (c *codec) varint(n protowire.Number, v int64) {
	c.b = protowire.AppendVarint(protowire.AppendTag(c.b, n, protowire.VarintType), protowire.EncodeZigZag(v))
}

func (c *codec) flag(n protowire.Number, v *bool) {
	if c.reading {
		if c.next.n == n {
			*v = c.next.int != 0
			c.advance()
		}
	} else if *v {
		c.varint(n, 1)
	}
}

// time writes nanoseconds without the time zone.
func (c *codec) time(n protowire.Number, v *time.Time) {
	if c.reading {
		if c.next.n == n {
			*v = time.Unix(0, c.next.int).UTC()
			c.advance()
		}
	} else if !v.IsZero() {
		nanos := v.UnixNano()
		number(c, n, &nanos)
	}
}

// money writes zero too: a cost of zero is not an unknown cost.
func (c *codec) money(n protowire.Number, v **usage.Money) {
	if c.reading {
		if c.next.n == n {
			*v = new(usage.Money(c.next.int))
			c.advance()
		}
	} else if *v != nil {
		c.varint(n, int64(**v))
	}
}

// list writes each element of a list as a group.
func list[T any](c *codec, n protowire.Number, v *[]T) {
	for i := 0; !c.reading && i < len(*v); i++ {
		c.group(n, &(*v)[i])
	}
	for c.reading && c.next.n == n {
		*v = append(*v, *new(T))
		c.group(n, &(*v)[len(*v)-1])
	}
}

// optional writes what is not nil as a group.
func optional[T any](c *codec, n protowire.Number, v **T) {
	if c.reading && c.next.n == n {
		*v = new(T)
		c.group(n, *v)
	} else if !c.reading && *v != nil {
		c.group(n, *v)
	}
}

// group writes nested fields. A group needs no length in advance, and so no second buffer.
func (c *codec) group(n protowire.Number, v any) {
	if !c.reading {
		c.b = protowire.AppendTag(c.b, n, protowire.StartGroupType)
		c.fields(v)
		c.b = protowire.AppendTag(c.b, n, protowire.EndGroupType)
		return
	}
	in := codec{reading: true, rest: c.next.text, depth: c.depth + 1}
	if in.depth > maxDepth {
		in.err = errRecord
	}
	c.err = in.read(v)
	c.advance()
}

// read sets the fields of a value. Releases write fields in the order of the method fields, so that one call
// of fields takes all but those of a newer release.
func (c *codec) read(v any) error {
	for c.advance(); c.next.n != 0; {
		before := len(c.rest)
		c.fields(v)
		if c.next.n != 0 && len(c.rest) == before { // this release does not know the field
			c.advance()
		}
	}
	return c.err
}

// advance reads the next field. It reads no value of an unknown type.
func (c *codec) advance() {
	c.next = field{}
	if c.err != nil || len(c.rest) == 0 {
		return
	}
	n, typ, size := protowire.ConsumeTag(c.rest)
	if size < 0 {
		c.err = errRecord
		return
	}
	b := c.rest[size:]
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
		c.err = errRecord
		return
	}
	c.next, c.rest = f, b[size:]
}

// fields shows the codec the fields of a value, in the order in which they are written.
func (c *codec) fields(v any) {
	switch v := v.(type) {
	case *begun:
		c.opening(&v.Opening)
		c.place(&v.slot, &v.tag)
	case *ended:
		c.row(&v.Row)
		c.positionAndTotals(&v.position, &v.totals)
	case *reserved:
		c.reserved(v)
	case *usage.Price:
		c.price(v)
	case *usage.Attempt:
		c.attempt(v)
	case *usage.Loss:
		c.text(1, &v.Code)
		c.text(2, &v.Path)
	case *usage.Tag:
		c.text(1, &v.Key)
		c.text(2, &v.Value)
	}
}

// begun is an opening as stored on disk.
type begun struct {
	Opening
	slot int64
	tag  int64
}

func (c *codec) opening(o *Opening) {
	c.text(1, &o.ID)
	c.text(2, &o.Node)
	c.text(3, &o.Key)
	c.text(4, &o.Team)
	c.text(5, &o.Org)
	c.time(6, &o.Began)
	c.text(7, &o.Endpoint)
	c.text(8, &o.Dialect)
	c.text(9, &o.Model)
	c.text(10, &o.Target)
	c.flag(11, &o.Stream)
	number(c, 12, &o.Prompt)
	optional(c, 13, &o.Price)
	number(c, 16, &o.Reserved) // 14 and 15: place
	c.labels(17, &o.Labels)
	c.client(19, &o.Client)
}

// place has the fields of an opening that the spool adds.
func (c *codec) place(slot, tag *int64) {
	number(c, 14, slot)
	number(c, 15, tag)
}

// ended is a row as stored on disk.
type ended struct {
	usage.Row
	position int64        // 1 for the first row of a log; 0: written by an older release
	totals   usage.Totals // after the row
}

func (c *codec) row(r *usage.Row) {
	c.text(1, &r.ID)
	c.text(2, &r.Node)
	c.text(3, &r.Key)
	c.text(4, &r.Team)
	c.text(5, &r.Org)
	c.time(6, &r.Began)
	number(c, 7, &r.Took)
	c.text(8, &r.Endpoint)
	c.text(9, &r.Dialect)
	c.text(10, &r.Model)
	c.text(11, &r.Target)
	c.flag(12, &r.Stream)
	number(c, 13, &r.Status)
	c.text(14, (*string)(&r.Outcome))
	c.usage(15, &r.Usage)
	c.flag(20, &r.Estimated)
	c.money(21, &r.Cost)
	list(c, 22, &r.Attempts)
	c.labels(27, &r.Labels) // 23 to 26: positionAndTotals
	c.client(29, &r.Client)
	c.text(32, &r.Fidelity)
	list(c, 33, &r.Losses)
	number(c, 34, &r.MoreLosses)
	number(c, 35, &r.Queue)
	number(c, 36, &r.FirstByte)
	number(c, 37, &r.FirstToken)
	c.text(38, (*string)(&r.Told.Reason))
	c.text(39, &r.Told.Code)
	c.text(40, &r.Told.Message)
	c.text(41, &r.Told.Remedy)
	otherUnits(c, firstOther, r.Usage.Other[:])
}

// positionAndTotals has the fields of a row that only the spool knows.
func (c *codec) positionAndTotals(position *int64, t *usage.Totals) {
	number(c, 23, position)
	number(c, 24, &t.Key)
	number(c, 25, &t.Team)
	number(c, 26, &t.Org)
}

// reserved is the reservation of an open request after it was extended.
type reserved struct {
	id     string
	amount usage.Money
}

func (c *codec) reserved(r *reserved) {
	c.text(1, &r.id)
	number(c, 2, &r.amount)
}

func (c *codec) price(p *usage.Price) {
	number(c, 1, &p.Input)
	number(c, 2, &p.CacheRead)
	number(c, 3, &p.CacheWrite)
	number(c, 4, &p.Output)
	number(c, 5, &p.Reasoning)
	number(c, 6, &p.Request)
	number(c, 7, &p.Context)
	number(c, 8, &p.Above)
	optional(c, 9, &p.Long)
	c.flag(10, &p.Ceiling)
	otherUnits(c, firstOther, p.Other[:])
}

func (c *codec) attempt(a *usage.Attempt) {
	c.text(1, &a.Target)
	c.time(2, &a.Began)
	number(c, 3, &a.Took)
	number(c, 4, &a.Status)
	c.text(5, &a.Fault)
	c.usage(6, &a.Usage)
	c.money(11, &a.Cost)
	c.flag(12, &a.Charged)
	number(c, 13, &a.Connect)
	number(c, 14, &a.FirstByte)
	number(c, 15, &a.FirstToken)
	number(c, 16, &a.Rates.Input)
	number(c, 17, &a.Rates.CacheRead)
	number(c, 18, &a.Rates.CacheWrite)
	number(c, 19, &a.Rates.Output)
	number(c, 20, &a.Rates.Reasoning)
	number(c, 21, &a.Rates.Request)
	otherUnits(c, firstOther, a.Usage.Other[:])
	otherUnits(c, firstOtherRate, a.Rates.Other[:])
}

// usage uses five field numbers from n.
func (c *codec) usage(n protowire.Number, u *llm.Usage) {
	number(c, n, &u.Input)
	number(c, n+1, &u.CacheRead)
	number(c, n+2, &u.CacheWrite)
	number(c, n+3, &u.Output)
	number(c, n+4, &u.Reasoning)
}

// Field numbers of the first unit without a field in llm.Usage: of its amount, or its rate in a price, and of its rate
// in an attempt.
const (
	firstOther     = 1000
	firstOtherRate = 2000
)

// otherUnits uses a field number from n for each unit without a field in llm.Usage, in the order of llm.OtherUnits.
func otherUnits[T ~int64](c *codec, n protowire.Number, values []T) {
	for i := range values {
		number(c, n+protowire.Number(i), &values[i])
	}
}

// client uses three field numbers from n.
func (c *codec) client(n protowire.Number, v *usage.Client) {
	c.text(n, &v.Person)
	c.text(n+1, &v.Agent)
	c.text(n+2, &v.Trace)
}

// labels uses two field numbers from n: the end user and the tags.
func (c *codec) labels(n protowire.Number, l *usage.Labels) {
	c.text(n, &l.User)
	list(c, n+1, &l.Tags)
}

func decodeBegun(b []byte) (o begun, err error) {
	c := codec{reading: true, rest: b}
	err = c.read(&o)
	if err == nil && o.ID == "" {
		err = errRecord
	}
	return o, err
}

func decodeRow(b []byte) (r ended, err error) {
	c := codec{reading: true, rest: b}
	err = c.read(&r)
	if err == nil && r.ID == "" {
		err = errRecord
	}
	return r, err
}

func decodeReserved(b []byte) (r reserved, err error) {
	c := codec{reading: true, rest: b}
	err = c.read(&r)
	return r, err
}
