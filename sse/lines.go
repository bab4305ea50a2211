package sse

import "bytes"

// lines finds the line ends of buf. It remembers the next LF, so that lines that
// end in a bare CR are not each searched to the end of the buffer.
type lines struct {
	buf []byte
	lf  int // first LF at or after the last position, len(buf) if there is none
}

// after returns where the first line end at or after from begins and where the
// next line begins. Both are len(buf) if there is no line end. from must be
// within buf.
func (l *lines) after(from int) (end, next int) {
	buf := l.buf
	if buf[from] == '\n' { // blank lines are every second line
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
