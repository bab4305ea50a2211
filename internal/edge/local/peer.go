package local

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
)

// peer returns the user and the process at the other end of a connection, from the kernel.
func peer(conn *net.UnixConn) (uid, pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { uid, pid, failed = credentials(int(fd)) })
	return uid, pid, errors.Join(err, failed)
}

// caller is the key of a connection's user in a context.
type caller struct{}

// ConnContext remembers the user of a connection if it may use the socket. It is for
// http.Server.ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	conn, ok := c.(*connection)
	if !ok {
		return ctx
	}
	uid, _, err := peer(conn.UnixConn)
	if err != nil || uid != 0 && uid != os.Geteuid() {
		return ctx
	}
	return context.WithValue(ctx, caller{}, strconv.Itoa(uid))
}

// UID returns the user id of a request that came over the socket. Requests of other listeners have none.
func UID(ctx context.Context) (string, bool) {
	uid, ok := ctx.Value(caller{}).(string)
	return uid, ok
}

// Guard refuses requests of other users. It is a second check behind the permissions of the socket's file.
func Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := UID(r.Context()); !ok {
			w.Header().Set("Connection", "close")
			http.Error(w, "only the user that the gateway runs as, and root, may use this socket", http.StatusForbidden)
			return
		}
		r.RemoteAddr = "" // a socket has no address
		next.ServeHTTP(w, r)
	})
}
