// Package capture hands exchanges to an operator who looks on, as tcpdump does with
// packets. The gateway keeps and writes nothing by itself: while a command is
// attached to its socket, and only then, the exchanges that match what it asks for
// are copied as they pass and given to it when they end.
//
// A Hub is the request path's side: Follow returns a Tape for an exchange that
// somebody wants, else nil. A Server is the socket's side, and Attach the command's.
// What is copied is bounded, and nothing here is ever waited for by a request.
//
// Credentials do not leave the process: headers are taken from a list, and the keys
// of the client and of the provider are cut out of everything else.
package capture
