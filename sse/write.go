package sse

import "strings"

// AppendEvent appends an event to dst. It splits data at LF, CRLF and CR into data
// lines, which a reader joins with LF. It omits the event line if name is empty. It
// removes line ends and NUL from name, so that a name cannot add fields or events.
func AppendEvent(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(dst, "event: "...)
		dst = appendName(dst, name)
		dst = append(dst, '\n')
	}
	dst = appendLines(dst, "data: ", data)
	return append(dst, '\n')
}

// AppendComment appends a comment to dst, one line for each line of text. It may be
// written between events only. It appends no blank line, because some clients treat
// one as an event without data.
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
