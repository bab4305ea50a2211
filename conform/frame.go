package conform

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/sse"
)

// event is one server-sent event.
type event struct{ name, data string }

// frames returns the names of the framing variants, which real servers use.
func frames() []string {
	return []string{"crlf", "cr", "bom", "nospace", "comments", "colon", "data-colon", "keepalive", "fields", "multiline",
		"no-event", "no-blank", "no-done", "two-done", "gzip", "json-instead", "sse-instead", "linger"}
}

// framing describes how the upstream of a case writes a stream.
type framing struct {
	names []string
	cut   int   // bytes per write; 0 for one event per write, -1 for a single write
	cuts  []int // bytes of each write in turn, instead of cut

	dialect Dialect // of the stream
}

func (f framing) has(name string) bool { return slices.Contains(f.names, name) }

// chunks returns the bytes of each write.
func (f framing) chunks(events []event) [][]byte {
	var blocks [][]byte
	for i, e := range events {
		if f.dialect == Converse {
			blocks = append(blocks, appendFrame(nil, e))
			continue
		}
		done := e.data == "[DONE]"
		if done && f.has("no-done") {
			continue
		}
		b := f.block(e)
		if done && f.has("two-done") {
			b = append(b, b...)
		}
		if i == 0 && f.has("bom") {
			b = append([]byte("\xEF\xBB\xBF"), b...)
		}
		if i == len(events)-1 && f.has("no-blank") {
			b = bytes.TrimRight(b, "\n")
		}
		blocks = append(blocks, f.lineEnds(b))
	}
	all := bytes.Join(blocks, nil)
	switch {
	case f.has("gzip"):
		return [][]byte{zipped(all)}
	case len(f.cuts) > 0:
		return cutAt(all, f.cuts)
	case f.cut < 0:
		return [][]byte{all}
	case f.cut > 0:
		return slices.Collect(slices.Chunk(all, f.cut))
	}
	return blocks
}

// cutAt splits b into parts of the given sizes in turn.
func cutAt(b []byte, sizes []int) [][]byte {
	var out [][]byte
	for i := 0; len(b) > 0; i++ {
		n := min(sizes[i%len(sizes)], len(b))
		out = append(out, b[:n])
		b = b[n:]
	}
	return out
}

func (f framing) block(e event) []byte {
	var b bytes.Buffer
	space := " "
	if f.has("nospace") {
		space = ""
	}
	if f.has("comments") {
		b.WriteString(": PROCESSING\n\n")
	}
	if f.has("colon") {
		b.WriteString(":\n\n")
	}
	if f.has("data-colon") {
		b.WriteString("data: : keepalive\n\n")
	}
	if f.has("keepalive") {
		b.WriteString("event: keepalive\n\n")
	}
	if f.has("fields") {
		b.WriteString("retry: 3000\nid: 7\nfoo: bar\n")
	}
	if e.name != "" && !f.has("no-event") {
		fmt.Fprintf(&b, "event:%s%s\n", space, e.name)
	}
	data := e.data
	if f.has("multiline") && json.Valid([]byte(data)) {
		var wide bytes.Buffer
		_ = json.Indent(&wide, []byte(data), "", " ") // the data was checked to be JSON
		data = wide.String()
	}
	for line := range strings.SplitSeq(data, "\n") {
		fmt.Fprintf(&b, "data:%s%s\n", space, line)
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func (f framing) lineEnds(b []byte) []byte {
	switch {
	case f.has("crlf"):
		return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
	case f.has("cr"):
		return bytes.ReplaceAll(b, []byte("\n"), []byte("\r"))
	}
	return b
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b) // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// suits reports whether a dialect's streams can be written in this way.
func (f framing) suits(d Dialect) bool {
	return d != Converse || !slices.ContainsFunc(f.names, func(name string) bool {
		return name != "gzip" && name != "linger" && name != "json-instead"
	})
}

// Media returns the media type of a dialect's streams.
func (d Dialect) Media() string {
	if d == Converse {
		return eventStream
	}
	return "text/event-stream"
}

// readEvents reads the stream of a dialect.
func (d Dialect) readEvents(body []byte) (events []event, rest string) {
	if d == Converse {
		return readFrames(body)
	}
	return readEvents(body)
}

// readEvents reads a stream as browsers and strict SDKs do. It returns the data of an
// incomplete last event as rest.
func readEvents(body []byte) (events []event, rest string) {
	r := sse.NewReader(bytes.NewReader(body), sse.Options{MaxEvent: 64 << 20})
	for {
		e, err := r.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return events, err.Error()
			}
			break
		}
		if e.HasData {
			events = append(events, event{string(e.Name), string(e.Data)})
		}
	}
	if last, ok := r.Last(); ok {
		rest = string(last.Data)
	}
	return events, rest
}
