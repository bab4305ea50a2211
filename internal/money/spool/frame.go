package spool

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A record in a segment is a frame: a four-byte mark, by which a reader finds the next frame after
// a corrupt one, the length of the body, a checksum of length and body, and the body.
const (
	frameHead = 12
	maxBody   = 1 << 20 // a row with its attempts has a few hundred bytes
)

var (
	frameMark  = [4]byte{0xf1, 'I', 'g', 0x9e}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// finishFrame fills in the header of a frame. The body starts at frameHead.
func finishFrame(b []byte) {
	copy(b, frameMark[:])
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-frameHead))
	binary.LittleEndian.PutUint32(b[8:], checksum(b))
}

func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[4:8], castagnoli), castagnoli, b[frameHead:])
}

// openFrame returns the body of the frame at the start of b, nil if it is incomplete or corrupt.
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

// frames reads the records of a segment, or of a part that ends with a record.
type frames struct {
	rest    []byte
	off     int64 // offset of rest in the segment
	torn    bool  // the last record is incomplete, as after a kill during a write
	corrupt int   // corrupt places in the middle
}

// next returns the next body and the offset after it. It skips corrupt records.
func (f *frames) next() (body []byte, end int64, ok bool) {
	if len(f.rest) == 0 {
		return nil, f.off, false
	}
	if body = openFrame(f.rest); body == nil {
		if !f.resync() {
			return nil, f.off, false
		}
		body = openFrame(f.rest)
	}
	f.skip(frameHead + len(body))
	return body, f.off, true
}

// resync skips to the next valid frame. The length of a corrupt one is not trusted.
func (f *frames) resync() bool {
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
			f.corrupt++
			f.skip(at)
			return true
		}
	}
}

func (f *frames) skip(n int) {
	f.rest, f.off = f.rest[n:], f.off+int64(n)
}

// corruptCount counts corrupt places, including an incomplete last record.
func (f *frames) corruptCount() int {
	if f.torn {
		return f.corrupt + 1
	}
	return f.corrupt
}
