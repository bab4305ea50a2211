package framing

import (
	"bytes"
	"strconv"
)

// heads follows the requests of one HTTP/1 connection and checks their heads, however the
// bytes are divided among reads. The zero value waits for the first request.
type heads struct {
	http2     bool   // the connection may begin with the preface of HTTP/2
	unchecked bool   // nothing more is checked: HTTP/2, or the body of the last request
	started   bool   // the request line was read
	old       bool   // the request is HTTP/1.0
	chunked   bool   // the request has a Transfer-Encoding
	declared  bool   // the request has a Content-Length
	length    uint64 // its value; after the head, the bytes of the body that are still to come
	line      []byte // the part of a line that has arrived. net/http limits it: it reads at most MaxHeaderBytes of a head
}

// check takes the next bytes of the connection. It returns how many of them a server may
// read: all, or those before a line that must be refused.
func (h *heads) check(p []byte) int {
	for i := 0; i < len(p); {
		switch {
		case h.unchecked:
			return len(p)
		case !h.started && h.length > 0:
			n := min(h.length, uint64(len(p)-i))
			h.length -= n
			i += int(n)
			continue
		}
		end := bytes.IndexByte(p[i:], '\n') + 1
		if end == 0 {
			h.line = append(h.line, p[i:]...)
			return len(p)
		}
		line := p[i : i+end]
		if len(h.line) > 0 {
			line = append(h.line, line...)
			h.line = nil
		}
		if !bytes.HasSuffix(line, []byte("\r\n")) || !h.take(line[:len(line)-2]) {
			return i
		}
		i += end
	}
	return len(p)
}

// take takes a line of a head. It reports false if the line must be refused.
func (h *heads) take(line []byte) bool {
	switch {
	case !h.started && len(line) == 0: // some clients send an empty line after a body
		h.http2 = false
		return true
	case !h.started:
		preface, allowed := string(line) == "PRI * HTTP/2.0", h.http2
		*h = heads{unchecked: preface, started: true, old: bytes.HasSuffix(line, []byte("HTTP/1.0"))}
		return line[0] != '\r' && (!preface || allowed) // net/http skips any CR after a body
	case len(line) == 0:
		h.started, h.unchecked = false, h.chunked
		return true
	case line[0] == ' ' || line[0] == '\t': // a continuation, which could be one of a length
		return false
	case hasName(line, "content-length:"):
		value := bytes.Trim(line[len("content-length:"):], " \t")
		length, err := strconv.ParseUint(string(value), 10, 63)
		repeated := h.declared && length != h.length
		h.declared, h.length = true, length
		return err == nil && !repeated && !h.chunked
	case hasName(line, "transfer-encoding:"):
		h.chunked = true
		return !h.declared && !h.old
	}
	return true
}

// hasName reports whether a line begins with a name in lower case, in any case.
func hasName(line []byte, name string) bool {
	return line[0]|0x20 == name[0] && len(line) >= len(name) && bytes.EqualFold(line[:len(name)], []byte(name))
}
