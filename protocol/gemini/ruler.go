package gemini

import "math/bits"

// ruler measures a text that is not kept: it has a bit for each byte, set where a
// character begins. Google counts in bytes, the neutral model in characters.
type ruler struct {
	starts []uint64
	bytes  int
}

// rulerLimit bounds the bytes that are measured, and so the memory; positions
// behind it are not known.
const rulerLimit = 1 << 20

func (r *ruler) reset() { r.starts, r.bytes = r.starts[:0], 0 }

// add measures what follows.
func (r *ruler) add(s string) {
	for i := 0; i < len(s) && r.bytes < rulerLimit; i++ {
		if r.bytes%64 == 0 {
			r.starts = append(r.starts, 0)
		}
		if s[i]&0xC0 != 0x80 { // no continuation of a character
			r.starts[r.bytes/64] |= 1 << (r.bytes % 64)
		}
		r.bytes++
	}
}

// chars is the number of characters that begin before the byte.
func (r *ruler) chars(byteAt int) int {
	byteAt = min(max(byteAt, 0), r.bytes)
	n := 0
	for i := range byteAt / 64 {
		n += bits.OnesCount64(r.starts[i])
	}
	if rest := byteAt % 64; rest > 0 {
		n += bits.OnesCount64(r.starts[byteAt/64] & (1<<rest - 1))
	}
	return n
}

// byteOf is where the character with that number begins; the end of the text
// where there are fewer.
func (r *ruler) byteOf(char int) int {
	for i, word := range r.starts {
		if n := bits.OnesCount64(word); char >= n {
			char -= n
			continue
		}
		for ; char > 0; char-- {
			word &= word - 1
		}
		return i*64 + bits.TrailingZeros64(word)
	}
	return r.bytes
}
