// Package redis runs Lua scripts on a Redis that several nodes share. It notices when the server is
// lost or slow, and when it is another one than before: a server that was restarted with an older
// snapshot, or a replica that was promoted.
package redis
