// Package conform is a conformance corpus for LLM gateways and the runner that
// plays it.
//
// A case is a text file. It says in neutral lines what a client asks and what an
// upstream answers, and, where that differs, what the upstream must hear and what
// the client must see. The runner writes both in each of the four dialects as the
// vendors do, stands on both sides of the gateway with real sockets, and reads
// what comes through as strictly as the vendors' SDKs and services.
//
// The package shares no code with the gateway's own codecs on purpose: it is a
// second opinion about the wire. docs/conform.md describes the format of a case.
package conform
