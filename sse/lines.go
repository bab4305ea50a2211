package sse

import "bytes"

// lines finds the line ends of buf. It caches the position of the next LF, because
// otherwise each line that ends in a bare CR would be searched for an LF up to the end
// of the buffer.
type lines struct {
	buf []byte
	lf  int // first LF at or after the last position, len(buf) if there is none
}

// after returns the position of the first line end at or after from, and the start of
// the next line. Both are len(buf) if there is no line end. from must be less than
// len(buf).
func (l *lines) after(from int) (end, next int) {
	buf := l.buf
	if buf[from] == '\n' { // a blank line, as about every second line is
		return from, from + 1
	}
	lf := l.lf
	if lf < from {
		lf = len(buf)
		if i := bytes.IndexByte(buf[from:], '\n'); i >= 0 {
			lf = from + i
		}
		l.lf = lf
	}
	if i := bytes.IndexByte(buf[from:lf], '\r'); i >= 0 {
		end = from + i
		next = end + 1
		if next == lf && lf < len(buf) {
			next++
		}
		return end, next
	}
	return lf, min(lf+1, len(buf))
}
