package conform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// eventStream is the media type of binary event streams.
const eventStream = "application/vnd.amazon.eventstream"

// The lengths of the parts of a frame that all frames have.
const (
	preludeBytes = 12
	crcBytes     = 4
	textHeader   = 7 // the type of a header that is a text
)

// appendFrame appends an event as a frame. An event whose name ends in Exception is an exception.
func appendFrame(to []byte, e event) []byte {
	kind := "event"
	if strings.HasSuffix(e.name, "Exception") {
		kind = "exception"
	}
	var headers []byte
	for _, h := range [][2]string{{":" + kind + "-type", e.name}, {":content-type", "application/json"}, {":message-type", kind}} {
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = binary.BigEndian.AppendUint16(append(headers, textHeader), uint16(len(h[1])))
		headers = append(headers, h[1]...)
	}
	start := len(to)
	to = binary.BigEndian.AppendUint32(to, uint32(preludeBytes+len(headers)+len(e.data)+crcBytes))
	to = binary.BigEndian.AppendUint32(to, uint32(len(headers)))
	to = binary.BigEndian.AppendUint32(to, crc32.ChecksumIEEE(to[start:]))
	to = append(append(to, headers...), e.data...)
	return binary.BigEndian.AppendUint32(to, crc32.ChecksumIEEE(to[start:]))
}

// readFrames reads a stream of frames. It returns what is wrong with the rest as rest.
func readFrames(body []byte) (events []event, rest string) {
	for len(body) > 0 {
		if len(body) < preludeBytes {
			return events, string(body)
		}
		total, inHeaders := binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])
		if crc32.ChecksumIEEE(body[:8]) != binary.BigEndian.Uint32(body[8:]) || uint64(total) < uint64(inHeaders)+preludeBytes+crcBytes {
			return events, "a frame with a wrong prelude"
		}
		if uint64(total) > uint64(len(body)) {
			return events, string(body)
		}
		frame := body[:total]
		body = body[total:]
		if crc32.ChecksumIEEE(frame[:total-crcBytes]) != binary.BigEndian.Uint32(frame[total-crcBytes:]) {
			return events, "a frame with a wrong checksum"
		}
		name, err := frameName(frame[preludeBytes : preludeBytes+inHeaders])
		if err != nil {
			return events, err.Error()
		}
		events = append(events, event{name, string(frame[preludeBytes+inHeaders : total-crcBytes])})
	}
	return events, ""
}

// frameName returns the name of an event or an exception from the headers of a frame.
func frameName(headers []byte) (string, error) {
	all := map[string]string{}
	for len(headers) > 0 {
		n := int(headers[0])
		if len(headers) < n+4 || headers[1+n] != textHeader {
			return "", errors.New("a frame with a header that is no text")
		}
		name := string(headers[1 : 1+n])
		size := int(binary.BigEndian.Uint16(headers[2+n:]))
		if headers = headers[4+n:]; len(headers) < size {
			return "", errors.New("a frame with a cut header")
		}
		all[name], headers = string(headers[:size]), headers[size:]
	}
	kind := all[":message-type"]
	if name := all[":"+kind+"-type"]; name != "" && (kind == "event" || kind == "exception") && all[":content-type"] == "application/json" {
		return name, nil
	}
	return "", fmt.Errorf("a frame with the headers %v", all)
}
