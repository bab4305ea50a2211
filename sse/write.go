package sse

import "strings"

// AppendEvent appends an event to dst. Data is split on LF, CRLF and CR into as
// many data lines as it needs, so that it reads back with LF. An empty name
// leaves the event line out. Line ends and NUL cannot be carried in a name and
// are left out of it, so that no name can add a field or an event.
func AppendEvent(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(dst, "event: "...)
		dst = appendName(dst, name)
		dst = append(dst, '\n')
	}
	dst = appendLines(dst, "data: ", data)
	return append(dst, '\n')
}

// AppendComment appends a comment to dst, one line for each line of text. No
// blank line follows: some clients take a blank line for an event without data.
// It is for use between events.
func AppendComment(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, ":\n"...)
	}
	return appendLines(dst, ": ", []byte(text))
}

func appendName(dst []byte, name string) []byte {
	if !strings.ContainsAny(name, "\r\n\x00") {
		return append(dst, name...)
	}
	for i := range len(name) {
		if c := name[i]; c != '\r' && c != '\n' && c != 0 {
			dst = append(dst, c)
		}
	}
	return dst
}

// appendLines appends each line of text after prefix.
func appendLines(dst []byte, prefix string, text []byte) []byte {
	l := lines{buf: text, lf: -1}
	for from := 0; ; {
		end, next := len(text), len(text)
		if from < len(text) {
			end, next = l.after(from)
		}
		dst = append(dst, prefix...)
		dst = append(dst, text[from:end]...)
		dst = append(dst, '\n')
		if end == len(text) {
			return dst
		}
		from = next
	}
}
