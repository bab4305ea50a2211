// Redteam attacks the built gateway from outside, as clients, upstreams, web pages,
// operators, identity providers, issuers of credentials and stores could, and checks that
// every attack holds.
//
//	redteam --bin bin/isogloss                 all attacks
//	redteam --bin bin/isogloss --short         of those that take long a fixed selection
//	redteam --bin bin/isogloss --only '^json/'
//	redteam --prove                            the same attacks on a weak gateway
//
// An attack sends bytes and has oracles, which judge what came back, what reached the
// upstream and what became of the process. It holds if no oracle finds a problem.
//
// An oracle that cannot fail proves nothing. With --prove, redteam serves as its own
// weak gateway, which checks nothing and forwards everything (weak.go), and reports every
// attack that this gateway withstands: such an attack must be repaired or listed as one
// that the weak gateway cannot show.
//
// Redteam knows the command line, the configuration and the wire, and nothing else of
// the gateway. One file has one class of attacks, or several small ones.
package main
