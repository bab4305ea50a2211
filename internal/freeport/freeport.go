// Package freeport finds loopback addresses for servers that tests and measurements
// start: those that cannot be told to listen on port 0 and to say which one they got.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// Ports below those that systems give to connections: while a server is being started
// or is down, no connection may take its port.
const first, count = 10_000, 22_000

// Addresses finds n addresses that nobody listens on, each another one: all are held
// until the last is found, since a port that was let go may be given out again.
func Addresses(n int) (found []string, err error) {
	for len(found) < n {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(count))) //nolint:noctx,gosec // nothing is looked up, and chance is no secret
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // nobody was served on it
		found = append(found, l.Addr().String())
	}
	return found, nil
}

// Address finds one.
func Address() (string, error) {
	found, err := Addresses(1)
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// Pair finds two: a gateway listens on two.
func Pair() (first, second string, err error) {
	found, err := Addresses(2)
	if err != nil {
		return "", "", err
	}
	return found[0], found[1], nil
}
