// Package protocoltest holds the laws that every codec obeys, as a test suite.
//
// [Run] takes a codec and a folder of cases, one .txtar file each, and holds the
// codec to the laws of its own protocol; [Pairs] does the same for every ordered
// pair of codecs; [CheckChat], [CheckAnthropic], [CheckResponses] and
// [CheckGemini] read a client's stream the way its SDK would.
//
// # Sections of a case
//
// What a case gives:
//
//	request.json   a client's request
//	incoming.json  its path, stream and version, where the protocol has them outside the body
//	target.json    what the encoder is told of the upstream: model, version, gates
//	upstream.sse   an upstream's stream
//	upstream.json  an upstream's whole answer; with upstream.sse, the same answer
//	ask.json       the request that the answer is for, of the case's own protocol
//	options        words: see below
//
// What a case expects, rewritten by -update:
//
//	neutral        the request in the neutral model
//	invalid        the error that the request is answered with instead
//	report         what the encoder could not express
//	encoded.json   the request as it is sent; only where it differs from request.json
//	events         the stream in the neutral model
//	response       the whole answer in the neutral model
//	client.sse     the stream as a client of the same protocol gets it
//	client.json    the answer as a client of the same protocol gets it
//
// A section encoded.json, even an empty one, says that the request is meant to
// change on its way; without it every member must come back. Options:
//
//	late      content comes after the proof of the end, so that a cut may lose it
//	lossy     the protocol's own writing of the answer holds less than the answer
package protocoltest
