package converse

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// unionName returns the name of the first member of an object.
func unionName(raw wire.Raw) string {
	s := wire.NewScanner(raw)
	if s.Kind() != '{' {
		return ""
	}
	for name := range s.Members() {
		return string(name)
	}
	return ""
}

// head appends the beginning of an event, and tail its end.
func head(to []byte, name string) []byte {
	return append(append(append(to, `data: {"`...), name...), `":{`...)
}

func tail(to []byte) []byte { return append(to, "}}\n\n"...) }

// appendObject appends an event with an object.
func appendObject(to []byte, name string, w *Response) []byte {
	raw, err := wire.Marshal(w)
	if err != nil { // a kept member has invalid UTF-8
		w.Extra = wire.Extra{}
		raw, _ = wire.Marshal(w)
	}
	raw = wire.Compact(raw)
	return tail(append(head(to, name), raw[1:len(raw)-1]...))
}

// appendIndex appends the position of a block.
func appendIndex(to []byte, index int) []byte {
	return strconv.AppendInt(append(to, `"contentBlockIndex":`...), int64(index), 10)
}
