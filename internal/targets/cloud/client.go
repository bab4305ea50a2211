package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// maxResponse limits what is read of an issuer's response.
const maxResponse = 1 << 20

// metadataAddresses are the link-local addresses at which clouds give credentials to their
// machines and pods. The client connects to no other address of that kind.
func metadataAddresses() []netip.Addr {
	return []netip.Addr{
		netip.MustParseAddr("169.254.169.254"), // instances of AWS, Google Cloud and Azure
		netip.MustParseAddr("169.254.170.2"),   // ECS tasks
		netip.MustParseAddr("169.254.170.23"),  // EKS pods
	}
}

// checkAddress rejects link-local addresses that no cloud uses for credentials.
func checkAddress(address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := to.Addr().Unmap().WithZone("")
	if ip.IsLinkLocalUnicast() && !slices.Contains(metadataAddresses(), ip) || ip.IsMulticast() || ip.IsUnspecified() {
		return fmt.Errorf("cloud: %s is not the address of a credential service", ip)
	}
	return nil
}

// newClient returns the client for issuers of credentials. It follows no redirect, which could
// carry a secret elsewhere, and asks metadata services without a proxy.
func newClient() *http.Client {
	return newClientOf(newTransport())
}

// newTransport returns the connections to issuers. A redirect fails before anything is sent.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: func(_, address string, _ syscall.RawConn) error { return checkAddress(address) }}
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  15 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

func newClientOf(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     &issuers{transport},
		Timeout:       fetchTime, // the AWS SDK fetches with a context that does not end
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// errRedirect ends a request that follows a redirect, which could carry a secret elsewhere.
var errRedirect = errors.New("cloud: the issuer redirects; configure its final address")

// proxy returns the proxy of a request: none for metadata services, which are beside this
// machine. It rejects requests that follow a redirect: the client of the AWS SDK follows some,
// and has no other place to say no.
func proxy(req *http.Request) (*url.URL, error) {
	if req.Response != nil {
		return nil, errRedirect
	}
	host := req.URL.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil && (ip.IsLinkLocalUnicast() || ip.IsLoopback() || ip.IsPrivate()) || host == "metadata.google.internal" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(req)
}

// issuers sends requests to issuers. It notes the difference of clocks and limits responses.
type issuers struct{ http.RoundTripper }

// clock is the difference between the clocks of an issuer and of this machine, as a value of a
// context.
type clock struct{ skew atomic.Int64 }

type clockKey struct{}

// withClock returns a context in which requests to issuers note the difference of clocks.
func withClock(ctx context.Context) (context.Context, *clock) {
	c := &clock{}
	return context.WithValue(ctx, clockKey{}, c), c
}

// local converts the end of a new token from the issuer's clock to this machine's. The AWS SDK
// limits the end of an instance's credential to an hour by this machine's clock; such an end
// would be past, and stays as it is.
func (c *clock) local(end time.Time) time.Time {
	skew := time.Duration(c.skew.Load())
	if ours := end.Add(-skew); skew.Abs() >= minSkew && ours.After(time.Now()) {
		return ours
	}
	return end
}

// noteClock notes the difference of clocks that a response shows.
func noteClock(ctx context.Context, h http.Header) {
	if c, ok := ctx.Value(clockKey{}).(*clock); ok {
		if date, err := http.ParseTime(h.Get("Date")); err == nil {
			c.skew.Store(int64(time.Until(date)))
		}
	}
}

func (i *issuers) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := i.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	noteClock(req.Context(), resp.Header)
	resp.Body = &limitedBody{resp.Body, maxResponse}
	return resp, nil
}

// limitedBody fails after a number of bytes.
type limitedBody struct {
	io.ReadCloser
	left int64
}

var errTooLarge = errors.New("cloud: the issuer's response is too large")

// limitedConn is a connection that fails after a number of bytes. It serves one request.
type limitedConn struct {
	net.Conn
	left int64
}

func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
