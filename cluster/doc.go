// Cluster runs three built gateways on a real Redis, PostgreSQL and etcd, freezes,
// kills, empties and rewinds the stores under load, kills the gateways too, and
// then compares three histories: what the clients saw, what the upstreams sent and
// what the ledger says.
//
//	cluster --bin bin/isogloss            everything, less than 25 minutes
//	cluster --bin bin/isogloss --short    what fits into four
//	cluster --bin bin/isogloss --only r1,r3
//
// It is an outsider's view. It knows the command line, the configuration, the wire
// and the tables of the ledger, and nothing else of the gateway. A request carries
// in its prompt what the upstream shall do with it, so that each one can have its
// own fate, and a tag by which both ends know it; the ledger knows it by the id
// that the gateway has told the client. One word is one token, of four letters.
//
// Every scenario has stores, gateways and folders of its own and is one file. The
// last line of a run is "N passed, M failed".
package main
