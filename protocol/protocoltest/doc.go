// Package protocoltest is a test suite for codecs.
//
// [Run] tests a codec against the rules of its own protocol, with a folder of cases in
// .txtar files. [Pairs] tests translation between every ordered pair of codecs.
// [Check] reads a client's stream like the vendor's SDK.
//
// # Sections of a case
//
// Input:
//
//	request.json   a client's request
//	incoming.json  its path, stream flag and version, if they are not in the body
//	target.json    the upstream's model, version and gates for the encoder
//	upstream.sse   an upstream's stream
//	upstream.json  an upstream's non-streaming response; equal to upstream.sse if both exist
//	ask.json       the request that the response answers, in the case's own protocol
//	options        words, see below
//
// Expected output, which -update rewrites:
//
//	neutral        the request in the neutral model
//	invalid        the error, for a request that is rejected
//	report         the losses that the encoder reports
//	encoded.json   the encoded request, if it differs from request.json
//	events         the stream in the neutral model
//	response       the complete response in the neutral model
//	client.sse     the stream for a client of the same protocol
//	client.json    the response for a client of the same protocol
//
// Without a section encoded.json, the encoded request must contain every member of
// request.json. Options:
//
//	late      content follows the event that ends the response, so a cut may lose it
//	lossy     the protocol's encoding of the response contains less than the response
package protocoltest
