// Package sse reads and writes server-sent events.
//
// A [Reader] is designed for proxies. [Reader.Batch] returns the exact bytes of all
// complete events after as few reads as possible, and parses the events only on
// request. The caller can forward the bytes unchanged or leave some of the events
// out. [Reader.Next] is simpler, for callers that need the events and not the bytes.
// Neither allocates memory per event.
//
// The package guarantees:
//
//   - The events do not depend on how the bytes are divided into reads. All Raw
//     slices in sequence, followed by Rest, are equal to the input.
//   - Batch returns an event as soon as it has read the blank line that ends it. It
//     returns a comment or blank line between events as soon as it has read its end.
//   - Memory is limited by Options.MaxEvent. A longer event is an error, which all
//     later calls return too.
//   - [AppendEvent] writes exactly one event, for all arguments.
//
// The Reader follows the HTML standard's rules for event streams. Lines end in LF,
// CRLF or CR. A leading byte order mark is removed. One space after the colon is not
// part of the value. Several data lines are joined with LF. There is one extension:
// a block of fields without data is an [Event] too, so that the caller can
// distinguish a named keep-alive from a body that is not an event stream.
package sse
