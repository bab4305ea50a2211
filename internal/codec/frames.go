package codec

// Frame is a message of a binary event stream, as Amazon's services send it.
type Frame struct {
	Type    string // event, exception or error
	Name    string // of the event, of the exception, or the code of the error
	Payload []byte // of an error: its message
}

// The types of frames.
const (
	EventFrame     = "event"
	ExceptionFrame = "exception"
	ErrorFrame     = "error"
)

// Frames says how a binary event stream carries server-sent events.
type Frames struct {
	// Decode appends the server-sent events of a frame to to.
	Decode func(f Frame, to []byte) []byte

	// Encode appends the frames of a server-sent event to to.
	Encode func(name, data []byte, to []Frame) []Frame
}
