// Package discover finds models and workers that come and go: in etcd, where workers
// register under a lease, in a file, behind a DNS name, or on this machine. The result
// is an immutable snapshot. The latest one is stored on disk, for a start without the
// sources.
//
// Discovered data is not trusted. The addresses of workers must lie in the networks
// that the operator allows, and many workers that disappear at once are kept for a
// while.
package discover
