package testrig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"syscall"
)

// The range of ports that Addresses chooses from. It lies below the range that systems
// use for outgoing connections, so no connection takes the port of a server that is
// down or about to start.
const firstPort, portCount = 10_000, 22_000

// A process chooses ports one after another from a random one on. It returns none twice,
// because the server that a port is for may not have started yet.
var (
	randomPort  = rand.Uint32N(portCount)
	portsChosen atomic.Uint32
)

// Addresses returns n different unused loopback addresses. No other process that calls it
// gets them before this one ends.
func Addresses(n int) (found []string, err error) {
	for len(found) < n {
		port := firstPort + int(randomPort+portsChosen.Add(1))%portCount
		err := holdPort(port)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, err
		}
		_ = l.Close() // it was never served
		found = append(found, l.Addr().String())
	}
	return found, nil
}

// holdPort marks a port as chosen until this process ends. It binds the port of UDP, which
// none of the servers uses, and leaves that of TCP free.
func holdPort(port int) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port})
	if err != nil {
		_ = syscall.Close(fd) // it is not bound
	}
	return err
}

// Address returns one unused loopback address.
func Address() (string, error) {
	found, err := Addresses(1)
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// UnusedPort returns an address that is bound but not listened on: connections to it
// are refused, and no other process can take it until release is called.
func UnusedPort() (address string, release func() error, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	release = func() error { return syscall.Close(fd) }
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", nil, err
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		return "", nil, err
	}
	at, ok := bound.(*syscall.SockaddrInet4)
	if !ok {
		return "", nil, fmt.Errorf("unexpected address %v", bound)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.Port), release, nil
}
