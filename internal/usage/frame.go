package usage

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A record in a segment is a frame: four bytes by which the next one can be found when
// one is broken, the length of the body, a checksum of length and body, and the body.
const (
	frameHead = 12
	maxBody   = 1 << 20 // a row with its attempts is a few hundred bytes
)

var (
	frameMark  = [4]byte{0xf1, 'I', 'g', 0x9e}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// seal completes a frame whose body stands behind frameHead free bytes.
func seal(b []byte) {
	copy(b, frameMark[:])
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-frameHead))
	binary.LittleEndian.PutUint32(b[8:], checksum(b))
}

func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[4:8], castagnoli), castagnoli, b[frameHead:])
}

// openFrame reads the frame at the start of b. It is nil where there is none that is whole.
func openFrame(b []byte) (body []byte) {
	if len(b) < frameHead || [4]byte(b) != frameMark {
		return nil
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n > maxBody || int(n) > len(b)-frameHead {
		return nil
	}
	b = b[:frameHead+int(n)]
	if binary.LittleEndian.Uint32(b[8:]) != checksum(b) {
		return nil
	}
	return b[frameHead:]
}

// frames reads the records of a segment, or of a part of one that ends with a record.
type frames struct {
	rest []byte
	off  int64 // of rest in the segment
	torn bool  // the last record is not whole, as after a kill in mid-write
	bad  int   // places in the middle that could not be read
}

// next is the next body and the offset behind it. It passes over what is broken.
func (f *frames) next() (body []byte, end int64, ok bool) {
	if len(f.rest) == 0 {
		return nil, f.off, false
	}
	if body = openFrame(f.rest); body == nil {
		if !f.find() {
			return nil, f.off, false
		}
		body = openFrame(f.rest)
	}
	f.skip(frameHead + len(body))
	return body, f.off, true
}

// find goes on to the next whole frame. The length of a broken one is not trusted.
func (f *frames) find() bool {
	for at := 1; ; at++ {
		i := -1
		if at < len(f.rest) {
			i = bytes.Index(f.rest[at:], frameMark[:])
		}
		if i < 0 {
			f.torn = true
			f.skip(len(f.rest))
			return false
		}
		at += i
		if openFrame(f.rest[at:]) != nil {
			f.bad++
			f.skip(at)
			return true
		}
	}
}

func (f *frames) skip(n int) {
	f.rest, f.off = f.rest[n:], f.off+int64(n)
}

// broken is how many places could not be read, where none should be broken.
func (f *frames) broken() int {
	if f.torn {
		return f.bad + 1
	}
	return f.bad
}
