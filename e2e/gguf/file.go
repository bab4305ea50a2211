package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// file is a GGUF file of version 3 in the making: named facts, then named tensors.
// See https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
type file struct {
	facts   bytes.Buffer
	count   uint64
	tensors []tensor
}

// tensor is a matrix of 32-bit floats, or a vector if it has no rows.
type tensor struct {
	name          string
	columns, rows int
	values        []float32
}

// align is the border at which a tensor's data begins.
const align = 32

// Numbers of the format for the types of facts.
const (
	typeUint32  = 4
	typeInt32   = 5
	typeFloat32 = 6
	typeBool    = 7
	typeString  = 8
	typeArray   = 9
)

// fact adds one. Lists are of one type each.
func (f *file) fact(name string, value any) {
	f.count++
	f.facts.Write(text(name))
	switch v := value.(type) {
	case string:
		put(&f.facts, uint32(typeString))
		f.facts.Write(text(v))
	case uint32:
		put(&f.facts, uint32(typeUint32), v)
	case float32:
		put(&f.facts, uint32(typeFloat32), v)
	case bool:
		put(&f.facts, uint32(typeBool), v)
	case []string:
		put(&f.facts, uint32(typeArray), uint32(typeString), uint64(len(v)))
		for _, s := range v {
			f.facts.Write(text(s))
		}
	case []float32:
		put(&f.facts, uint32(typeArray), uint32(typeFloat32), uint64(len(v)), v)
	case []int32:
		put(&f.facts, uint32(typeArray), uint32(typeInt32), uint64(len(v)), v)
	default:
		panic(fmt.Sprintf("gguf: a fact of type %T", value)) // only this package adds facts
	}
}

func (f *file) tensor(t tensor) { f.tensors = append(f.tensors, t) }

// bytes is the whole file.
func (f *file) bytes() []byte {
	var head, data bytes.Buffer
	head.WriteString("GGUF")
	put(&head, uint32(3), uint64(len(f.tensors)), f.count)
	head.Write(f.facts.Bytes())
	for _, t := range f.tensors {
		head.Write(text(t.name))
		if t.rows == 0 {
			put(&head, uint32(1), uint64(t.columns))
		} else {
			put(&head, uint32(2), uint64(t.columns), uint64(t.rows))
		}
		const float32s = 0
		put(&head, uint32(float32s), uint64(data.Len()))
		for _, v := range t.values {
			data.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
		}
		pad(&data)
	}
	pad(&head)
	return append(head.Bytes(), data.Bytes()...)
}

func text(s string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...)
}

func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		_ = binary.Write(b, binary.LittleEndian, v) // a buffer takes everything
	}
}

func pad(b *bytes.Buffer) {
	if over := b.Len() % align; over != 0 {
		b.Write(make([]byte, align-over))
	}
}
