// Package redis connects to the Redis that several nodes share: one server, the master that Sentinels
// name, or the masters of a cluster. It runs Lua scripts on it. For each server it notices when the
// server is lost or slow, and when it is another one than before: a server that was restarted with an
// older snapshot, or a replica that was promoted.
package redis
