package access

// LocalHost reports whether the host that a request names is this machine's own name
// or an address. A page can point a name of its own at 127.0.0.1, but its requests
// then carry that name.
func LocalHost(host string) bool { return local(host) }
