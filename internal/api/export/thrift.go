package export

import "encoding/binary"

// Types of fields in Thrift's compact protocol.
const (
	typeTrue, typeI32, typeI64, typeBinary, typeList, typeStruct = 1, 5, 6, 8, 9, 12
)

// thrift writes structures in Thrift's compact protocol, which Parquet's metadata have. Fields are written
// in the order of their numbers. The outermost structure is open at the start.
type thrift struct {
	b    []byte
	last []int // number of the last field of each open structure but the outermost
	at   int   // of the innermost
}

func (t *thrift) field(number int, kind byte) {
	t.b = append(t.b, byte(number-t.at)<<4|kind)
	t.at = number
}

func (t *thrift) varint(n int64) { t.b = binary.AppendVarint(t.b, n) }

func (t *thrift) bytes(text string) {
	t.b = binary.AppendUvarint(t.b, uint64(len(text)))
	t.b = append(t.b, text...)
}

func (t *thrift) number(field, n int) { t.field(field, typeI32); t.varint(int64(n)) }

func (t *thrift) long(field int, n int64) { t.field(field, typeI64); t.varint(n) }

func (t *thrift) text(field int, text string) { t.field(field, typeBinary); t.bytes(text) }

func (t *thrift) yes(field int) { t.field(field, typeTrue) }

// list begins a list, whose elements follow.
func (t *thrift) list(field int, kind byte, n int) {
	t.field(field, typeList)
	if n < 15 {
		t.b = append(t.b, byte(n)<<4|kind)
		return
	}
	t.b = binary.AppendUvarint(append(t.b, 0xf0|kind), uint64(n))
}

// open begins a structure that is an element of a list.
func (t *thrift) open() { t.last, t.at = append(t.last, t.at), 0 }

// end ends a structure.
func (t *thrift) end() {
	t.b = append(t.b, 0)
	if n := len(t.last); n > 0 {
		t.last, t.at = t.last[:n-1], t.last[n-1]
	}
}

// structure writes a field that is a structure.
func (t *thrift) structure(field int, fields func()) {
	t.field(field, typeStruct)
	t.open()
	fields()
	t.end()
}
