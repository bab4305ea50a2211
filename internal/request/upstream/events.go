package upstream

import (
	"io"
	"sync"

	"github.com/isogloss-gateway/isogloss/internal/codec/pair"
	"github.com/isogloss-gateway/isogloss/sse"
)

// Buffer sizes of a stream. A stream waits most of its life, so it waits with a
// small buffer. It switches to a large one while reads fill the small one.
const (
	smallBuffer = 1<<10 - 24 // Events is then 1 KiB
	LargeBuffer = 16 << 10   // LargeBuffer is the size of a pooled buffer.
)

var largeBuffers = sync.Pool{New: func() any { return new([LargeBuffer]byte) }}

// Buffer takes a buffer from the pool. Free returns it.
func Buffer() *[LargeBuffer]byte { return largeBuffers.Get().(*[LargeBuffer]byte) }

// Free returns a buffer to the pool.
func Free(b *[LargeBuffer]byte) { largeBuffers.Put(b) }

var eventsPool = sync.Pool{New: func() any { return new(Events) }}

// Events reads the server-sent events of one response.
type Events struct {
	reader *sse.Reader
	last   int                // bytes of complete events in the last batch
	large  *[LargeBuffer]byte // nil while the small buffer is in use
	small  [smallBuffer]byte
}

// NewEvents returns a reader of the events of r, none of them larger than max
// bytes. Close releases it.
func NewEvents(r io.Reader, max int64) *Events {
	e := eventsPool.Get().(*Events)
	e.reader = sse.NewReader(r, sse.Options{MaxEvent: int(max), Buffer: e.small[:]})
	return e
}

// Batch returns the complete events of the next read. The events are valid until the next
// call. A batch may be returned together with an error.
func (e *Events) Batch() (sse.Batch, error) {
	e.fit()
	batch, err := e.reader.Batch()
	e.last = len(batch.Raw)
	return batch, err
}

// fit chooses the buffer for the next read by the size of the last one. If a read has
// filled the small buffer, more data is waiting.
func (e *Events) fit() {
	got := e.last + len(e.reader.Rest())
	switch {
	case e.large == nil && got >= smallBuffer:
		large := Buffer()
		if !e.reader.Use(large[:]) {
			Free(large)
			return
		}
		e.large = large
	case e.large != nil && got < smallBuffer && e.reader.Use(e.small[:]):
		Free(e.large)
		e.large = nil
	}
}

// Last returns the last event of the stream, as [pair.Last] does.
func (e *Events) Last() (sse.Event, bool) { return pair.Last(e.reader) }

// Close releases the buffers. It need not run after a panic.
func (e *Events) Close() {
	if e.large != nil {
		Free(e.large)
	}
	e.reader, e.large, e.last = nil, nil, 0
	eventsPool.Put(e)
}
