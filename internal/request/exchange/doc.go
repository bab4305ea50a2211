// Package exchange holds the values that the request path and the lanes share. A
// Call is a client's request, a Target is an upstream that can serve it, a Lane
// writes a call for a target, and a Delivery sends the response to the client. The
// package has no policy: it does not decide which target is tried, or when.
package exchange
