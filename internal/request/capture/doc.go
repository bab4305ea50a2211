// Package capture copies exchanges to a command that is attached to the gateway, as
// tcpdump does with packets. The gateway itself stores and writes nothing: it copies
// only the exchanges that match an attached command's filter, and hands each over when
// it has ended.
//
// The request path uses a Hub, whose Record returns a Recorder for an exchange that
// matches, else nil. A handler of the gateway's local socket serves the Hub to commands,
// which call Attach. What is copied is bounded, and no request ever waits for it.
//
// Credentials do not leave the process: headers are copied from an allowlist, and the
// keys of the client and of the provider are redacted everywhere else.
package capture
