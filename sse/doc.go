// Package sse reads and writes server-sent events.
//
// A [Reader] is made for a relay: [Reader.Batch] returns, after as few reads as
// possible, the exact bytes of all blocks that are complete, and the events in
// them are parsed only when asked for. The bytes can be passed on as they came,
// whole or without some of the events. [Reader.Next] is the simple way for a
// caller that wants events and not bytes. Neither allocates per event.
//
// What the package promises:
//
//   - How the bytes were cut into reads does not matter: the events are the same,
//     and all Raw slices one after the other, followed by Rest, are the input.
//   - Nothing is held back without need. A block is released with the line end
//     that completes it, and whatever stands outside an unfinished block, such
//     as a keep-alive comment, is released with its own line end.
//   - Memory is bounded by Options.MaxEvent. A longer block is an error that
//     stays, never a silent end of the stream.
//   - What [AppendEvent] writes is one event, whatever its arguments hold.
//
// Reading follows the HTML standard's rules for event streams: lines end in LF,
// CRLF or CR, one leading byte order mark is removed, one space after the colon
// is not part of the value, several data lines are joined with LF. It is wider
// in one point: every block with a field is reported as an [Event], also one
// without data, so that a caller can tell a named keep-alive from a body that is
// no event stream at all.
package sse
