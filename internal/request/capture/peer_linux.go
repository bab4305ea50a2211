package capture

import (
	"net"
	"os"
	"strconv"
	"syscall"
)

// peer returns the user id of the connected process from the kernel, and whether that
// user may attach. It is a second check behind the permissions of the socket's file.
func peer(conn *net.UnixConn) (uid string, allowed bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return "?", false
	}
	var cred *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || failed != nil {
		return "?", false
	}
	return strconv.FormatUint(uint64(cred.Uid), 10), cred.Uid == 0 || int(cred.Uid) == os.Geteuid()
}
