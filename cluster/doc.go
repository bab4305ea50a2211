// Cluster runs three built gateways on a real Redis, PostgreSQL and etcd. It freezes,
// kills, empties and rewinds the stores under load, kills the gateways too, and then
// compares three histories: of the clients, of the upstream and of the ledger.
//
//	cluster --bin bin/isogloss            everything, less than 35 minutes
//	cluster --bin bin/isogloss --short    what fits into four
//	cluster --bin bin/isogloss --only r1,r3
//	cluster --bin bin/isogloss --only rollout --streams 10m
//
// It knows the command line, the configuration, the wire and the tables of the ledger,
// and nothing else of the gateway. The prompt of a request tells the upstream how to
// answer and carries a tag that both ends record; the ledger has the request id that
// the client received. One word is one token, of four letters.
//
// Every scenario has its own stores, gateways and folders and is one file. The last
// line of a run is "N passed, M failed".
package main
