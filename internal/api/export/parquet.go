package export

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"math"
	"reflect"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// groupRows is the number of rows of a row group, which is in memory until it is complete.
const groupRows = 20_000

// Numbers of the format, from parquet.thrift of https://github.com/apache/parquet-format.
const (
	typeBool, typeInt64, typeDouble, typeBytes = 0, 2, 5, 6
	convertedUTF8, convertedDecimal            = 0, 5
	logicalString, logicalDecimal, logicalTime = 1, 5, 8
	unitNanos                                  = 3
	encodingPlain, encodingRLE                 = 0, 3
	codecGzip                                  = 2
	required, optional                         = 0, 1

	moneyScale, moneyPrecision = 9, 18

	magic = "PAR1"
)

// parquetWriter writes a file of flat rows: PLAIN values in one page for each column of a row group,
// compressed by gzip.
type parquetWriter[T any] struct {
	out     io.Writer
	at      int64 // bytes written
	err     error
	columns []*column
	rows    int // of the row group
	total   int64
	groups  []rowGroup
	zip     *gzip.Writer
	page    bytes.Buffer // compressed
}

// column is a column of the row group that is not complete yet.
type column struct {
	name     string
	kind     int
	logical  int // 0: none
	optional bool
	values   []byte
	present  []bool // of an optional column
	bits     int    // of a bool column
}

type rowGroup struct {
	rows   int
	chunks []chunk
}

type chunk struct{ offset, plain, packed int64 }

func newParquet[T any](w io.Writer) *parquetWriter[T] {
	p := &parquetWriter[T]{out: w}
	p.zip, _ = gzip.NewWriterLevel(&p.page, gzip.BestSpeed) // the level is valid
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		p.columns = append(p.columns, newColumn(columnName(t.Field(i)), reflect.New(t.Field(i).Type).Elem().Interface()))
	}
	p.write([]byte(magic))
	return p
}

func newColumn(name string, v any) *column {
	c := &column{name: name}
	switch v.(type) {
	case bool:
		c.kind = typeBool
	case float64:
		c.kind = typeDouble
	case time.Time:
		c.kind, c.logical = typeInt64, logicalTime
	case *time.Time:
		c.kind, c.logical, c.optional = typeInt64, logicalTime, true
	case *usage.Money:
		c.kind, c.logical, c.optional = typeInt64, logicalDecimal, true
	case string:
		c.kind, c.logical = typeBytes, logicalString
	default:
		c.kind = typeInt64
	}
	return c
}

// add adds a value.
func (c *column) add(v any) {
	switch v := v.(type) {
	case bool:
		if c.bits%8 == 0 {
			c.values = append(c.values, 0)
		}
		if v {
			c.values[c.bits/8] |= 1 << (c.bits % 8)
		}
		c.bits++
	case float64:
		c.values = binary.LittleEndian.AppendUint64(c.values, math.Float64bits(v))
	case time.Time:
		c.addInt(v.UnixNano())
	case *time.Time:
		if c.present = append(c.present, v != nil); v != nil {
			c.addInt(v.UnixNano())
		}
	case *usage.Money:
		if c.present = append(c.present, v != nil); v != nil {
			c.addInt(int64(*v))
		}
	case string:
		c.values = binary.LittleEndian.AppendUint32(c.values, uint32(len(v)))
		c.values = append(c.values, v...)
	case int64:
		c.addInt(v)
	}
}

func (c *column) addInt(n int64) {
	c.values = binary.LittleEndian.AppendUint64(c.values, uint64(n))
}

// levels returns which values are there: runs of equal bits, with their length before them.
func (c *column) levels() []byte {
	if !c.optional {
		return nil
	}
	out := make([]byte, 4)
	for i := 0; i < len(c.present); {
		n := i
		for n < len(c.present) && c.present[n] == c.present[i] {
			n++
		}
		out = binary.AppendUvarint(out, uint64(n-i)<<1)
		out = append(out, map[bool]byte{true: 1}[c.present[i]])
		i = n
	}
	binary.LittleEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

func (p *parquetWriter[T]) write(data []byte) {
	if p.err == nil {
		_, p.err = p.out.Write(data)
		p.at += int64(len(data))
	}
}

// Write implements Writer.
func (p *parquetWriter[T]) Write(rows []T) error {
	for i := range rows {
		v := reflect.ValueOf(&rows[i]).Elem()
		for n, c := range p.columns {
			c.add(v.Field(n).Interface())
		}
		if p.rows++; p.rows == groupRows {
			p.flush()
		}
	}
	return p.err
}

// flush writes the row group.
func (p *parquetWriter[T]) flush() {
	if p.rows == 0 {
		return
	}
	g := rowGroup{rows: p.rows}
	for _, c := range p.columns {
		levels := c.levels()
		p.page.Reset()
		p.zip.Reset(&p.page)
		_, _ = p.zip.Write(levels) // a buffer does not fail
		_, _ = p.zip.Write(c.values)
		_ = p.zip.Close()
		plain := len(levels) + len(c.values)
		var h thrift
		h.number(1, 0) // a data page
		h.number(2, plain)
		h.number(3, p.page.Len())
		h.structure(5, func() {
			h.number(1, p.rows)
			h.number(2, encodingPlain)
			h.number(3, encodingRLE)
			h.number(4, encodingRLE)
		})
		h.end()
		g.chunks = append(g.chunks, chunk{p.at, int64(len(h.b) + plain), int64(len(h.b) + p.page.Len())})
		p.write(h.b)
		p.write(p.page.Bytes())
		c.values, c.present, c.bits = c.values[:0], c.present[:0], 0
	}
	p.groups = append(p.groups, g)
	p.total += int64(p.rows)
	p.rows = 0
}

// Close implements Writer.
func (p *parquetWriter[T]) Close() error {
	p.flush()
	var f thrift
	f.number(1, 1) // version
	f.list(2, typeStruct, len(p.columns)+1)
	f.open()
	f.text(4, "rows")
	f.number(5, len(p.columns))
	f.end()
	for _, c := range p.columns {
		c.describe(&f)
	}
	f.long(3, p.total)
	f.list(4, typeStruct, len(p.groups))
	for _, g := range p.groups {
		p.describe(&f, g)
	}
	f.text(6, "isogloss")
	f.end()
	p.write(f.b)
	p.write(binary.LittleEndian.AppendUint32(nil, uint32(len(f.b))))
	p.write([]byte(magic))
	return p.err
}

// describe writes the element of the schema.
func (c *column) describe(f *thrift) {
	f.open()
	f.number(1, c.kind)
	if c.optional {
		f.number(3, optional)
	} else {
		f.number(3, required)
	}
	f.text(4, c.name)
	switch c.logical {
	case logicalString:
		f.number(6, convertedUTF8)
		f.structure(10, func() { f.structure(logicalString, func() {}) })
	case logicalDecimal:
		f.number(6, convertedDecimal)
		f.number(7, moneyScale)
		f.number(8, moneyPrecision)
		f.structure(10, func() {
			f.structure(logicalDecimal, func() { f.number(1, moneyScale); f.number(2, moneyPrecision) })
		})
	case logicalTime:
		f.structure(10, func() {
			f.structure(logicalTime, func() {
				f.yes(1) // in UTC
				f.structure(2, func() { f.structure(unitNanos, func() {}) })
			})
		})
	}
	f.end()
}

// describe writes the metadata of a row group.
func (p *parquetWriter[T]) describe(f *thrift, g rowGroup) {
	f.open()
	f.list(1, typeStruct, len(g.chunks))
	var size int64
	for i, k := range g.chunks {
		size += k.plain
		f.open()
		f.long(2, k.offset)
		f.structure(3, func() {
			f.number(1, p.columns[i].kind)
			f.list(2, typeI32, 2)
			f.varint(encodingPlain)
			f.varint(encodingRLE)
			f.list(3, typeBinary, 1)
			f.bytes(p.columns[i].name)
			f.number(4, codecGzip)
			f.long(5, int64(g.rows))
			f.long(6, k.plain)
			f.long(7, k.packed)
			f.long(9, k.offset)
		})
		f.end()
	}
	f.long(2, size)
	f.long(3, int64(g.rows))
	f.end()
}
