//go:build !linux

package capture

import "net"

// peer allows every user: only the permissions of the socket's file are checked here.
func peer(*net.UnixConn) (uid string, allowed bool) { return "?", true }
