// Package local serves a Unix socket for commands on the gateway's machine, and connects commands to it.
// Only the user that the gateway runs as, and root, may use it: the folder has mode 0700 and the socket
// 0600, and the kernel names the user of each connection.
package local
