// Package testrig starts gateways and fake upstreams for the harnesses: chaos, cluster,
// bench, e2e and the tests of the packages that serve requests.
//
// It has its own view of the wire and imports no codec of the gateway, so that a
// mistake in a codec cannot hide itself. Its upstream is as strict as the vendors: it
// refuses incomplete requests and reports usage on a Chat stream only when asked.
package testrig
