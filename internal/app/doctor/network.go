package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/app/running"
)

// cause says in plain words why a server cannot be used, and what to do. setting names where its address is
// written; proxy is the one on the way, or "".
func cause(err error, setting, proxy string) (text, remedy string) {
	var (
		name      *net.DNSError
		op        *net.OpError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		timeout   interface{ Timeout() bool }
	)
	dialled := errors.As(err, &op)
	switch {
	case dialled && op.Op == "proxyconnect":
		return fmt.Sprintf("the proxy %s cannot be used: %v", proxy, op.Err), "correct HTTPS_PROXY or HTTP_PROXY of the gateway, or list the host in NO_PROXY"
	case errors.As(err, &record):
		return "it does not speak TLS", "write http:// in " + setting + ", or correct its port"
	case errors.As(err, &name) && name.IsNotFound:
		return fmt.Sprintf("the name %s does not resolve", name.Name), "correct the host in " + setting + ", or the DNS of this machine (/etc/resolv.conf)"
	case errors.As(err, &name):
		return fmt.Sprintf("the DNS server does not say the address of %s: %s", name.Name, name.Err), "check the DNS of this machine (/etc/resolv.conf)"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the server's certificate is valid from %s to %s, and this machine's clock says %s", day(invalid.Cert.NotBefore), day(invalid.Cert.NotAfter), day(time.Now())), "renew the server's certificate, or set this machine's clock"
	case errors.As(err, &authority):
		issuer := "an authority"
		if authority.Cert != nil {
			issuer = authority.Cert.Issuer.String()
		}
		return fmt.Sprintf("the server's certificate is signed by %s, which this machine does not trust", issuer), "install the certificate of that CA on this machine (SSL_CERT_FILE, or the ca setting beside " + setting + "), if the server is the right one"
	case errors.As(err, &host):
		return fmt.Sprintf("the server's certificate is not for %s", host.Host), "write a name of the certificate in " + setting
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: the connection is refused", "start the server, or correct " + setting
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no network route to it", "check the network of this machine, or correct " + setting
	case errors.Is(err, os.ErrPermission):
		return err.Error(), "let the gateway's user read it"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time", "check that it runs, that no firewall is between, and " + setting
	}
	if proxy != "" && !dialled {
		return fmt.Sprintf("the proxy %s refuses the connection: %v", proxy, err), "correct HTTPS_PROXY or HTTP_PROXY of the gateway, or list the host in NO_PROXY"
	}
	return err.Error(), "check " + setting
}

// day formats a time for a person.
func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" }

// took formats a duration.
func took(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// bytesText formats a number of bytes.
func bytesText[N int64 | uint64](n N) string {
	switch v := float64(n); {
	case v >= 1<<30:
		return fmt.Sprintf("%.1f GiB", v/(1<<30))
	case v >= 1<<20:
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}

// lines splits an error at its lines.
func lines(err error) []string { return strings.Split(strings.TrimSpace(err.Error()), "\n") }

// pidOf returns the process of a gateway; 0: none runs.
func pidOf(g *running.Gateway) int {
	if g == nil {
		return 0
	}
	return g.PID
}

// split separates what happened from what to do, at the last semicolon of a message of the gateway.
func split(message string) (text, remedy string) {
	if i := strings.LastIndex(message, "; "); i > 0 {
		return message[:i], message[i+2:]
	}
	return message, ""
}
