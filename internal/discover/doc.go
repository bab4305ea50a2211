// Package discover finds models and workers that come and go: in etcd, where
// workers register under a lease, in a file, or behind a name in the DNS. Whatever
// the source, the result is a snapshot that does not change, and the newest one is
// kept on disk for a start without the source.
//
// What is discovered is somebody else's word. Addresses are held to the networks
// that the operator allows, and many workers that vanish at once are not believed
// at once.
package discover
