// Package conform is a conformance corpus for LLM gateways with its runner.
//
// A case is a text file. It describes in neutral lines the client request (ask) and the
// upstream response (answer), and, where they differ, the upstream request (heard) and
// the client response (seen). The runner writes both in each of the five dialects, runs
// on both sides of the gateway over real sockets, and reads the result as strictly as the
// vendors' SDKs and services.
//
// The package shares no code with the gateway's codecs, so that a mistake in a codec cannot
// hide itself. docs/conform.md describes the format of a case.
package conform
