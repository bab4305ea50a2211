package converse

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// frames carries an event in a frame. The data of the event is an object whose only member has the
// name of the frame and its payload:
//
//	event: contentBlockStop         data: {"contentBlockStop":{"contentBlockIndex":0}}
//	exception: throttlingException  data: {"throttlingException":{"message":"…"}}
//	error: InternalError            data: {"error":{"code":"InternalError","message":"…"}}
func frames() *codec.Frames { return &codec.Frames{Decode: decodeFrame, Encode: encodeFrame} }

func decodeFrame(f codec.Frame, to []byte) []byte {
	name, value := f.Name, jsontext.Value(f.Payload)
	if f.Type == codec.ErrorFrame {
		name = "error"
		value = wire.AppendQuote([]byte(`{"code":`), f.Name)
		value = append(wire.AppendQuote(append(value, `,"message":`...), strings.ToValidUTF8(string(f.Payload), "\uFFFD")), '}')
	}
	switch {
	case len(value) == 0:
		value = jsontext.Value("{}")
	case !value.IsValid(wire.Lenient):
		value = wire.AppendQuote(nil, string(value))
	}
	data := append(make([]byte, 0, len(name)+len(value)+len(`{"":}`)), '{')
	data = append(wire.AppendQuote(data, strings.ToValidUTF8(name, "\uFFFD")), ':')
	return sse.AppendEvent(to, "", append(append(data, value...), '}'))
}

func encodeFrame(_, data []byte, to []codec.Frame) []codec.Frame {
	s := wire.NewScanner(data)
	for name := range s.Members() {
		f := codec.Frame{Type: codec.EventFrame, Name: string(name)}
		if strings.HasSuffix(f.Name, "Exception") {
			f.Type = codec.ExceptionFrame
		}
		f.Payload = s.Value()
		to = append(to, f)
	}
	return to
}
