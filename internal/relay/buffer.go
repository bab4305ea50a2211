package relay

import (
	"sync"

	"github.com/isogloss-gateway/isogloss/sse"
)

// A stream waits with a small buffer, because most of its life it waits, and there
// are many of them. While more comes than that holds, it reads into a large one,
// and each read and write is worth its system call.
const (
	waitBuffer   = 1<<10 - 8 // an eventBuffer is then 1 KiB with its pointer
	streamBuffer = 16 << 10
)

// buffers are the large ones. A stream that grows its buffer keeps the larger one
// to itself.
var buffers = sync.Pool{New: func() any { return new([streamBuffer]byte) }}

// outs are what translated events are written into. The first ones of a stream may
// be large, and so a stream has one only while there is something to send.
var outs = sync.Pool{New: func() any { return new([]byte) }}

// putOut gives one back. One that grew very large is not worth keeping.
func putOut(b *[]byte) {
	if cap(*b) <= heldBack {
		*b = (*b)[:0]
		outs.Put(b)
	}
}

var eventBuffers = sync.Pool{New: func() any { return new(eventBuffer) }}

// eventBuffer is what the events of one stream are read into.
type eventBuffer struct {
	small [waitBuffer]byte
	large *[streamBuffer]byte // nil while the small one is in use
}

func (x *exchange) events() (*sse.Reader, *eventBuffer) {
	b := eventBuffers.Get().(*eventBuffer)
	return sse.NewReader(x.upstream.Body, sse.Options{MaxEvent: int(x.state.Limits.Event), Buffer: b.small[:]}), b
}

// fit chooses the buffer for the next read by what the last one has brought, which
// is the bytes of whole events and the rest: a small buffer that is full says that
// there is more.
func (b *eventBuffer) fit(r *sse.Reader, whole int) {
	got := whole + len(r.Rest())
	switch {
	case b.large == nil && got >= waitBuffer:
		large := buffers.Get().(*[streamBuffer]byte)
		if !r.Use(large[:]) {
			buffers.Put(large)
			return
		}
		b.large = large
	case b.large != nil && got < waitBuffer && r.Use(b.small[:]):
		buffers.Put(b.large)
		b.large = nil
	}
}

// release ends the use of both buffers. After a panic they are better not used
// again, so it need not be deferred.
func (b *eventBuffer) release() {
	if b.large != nil {
		buffers.Put(b.large)
		b.large = nil
	}
	eventBuffers.Put(b)
}
