package capture

import (
	"net"
	"os"
	"strconv"
	"syscall"
)

// peer is who is at the other end, as the kernel knows it, and whether they may look
// on: a second lock behind the file's permissions.
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
