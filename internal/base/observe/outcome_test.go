package observe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestJudge(t *testing.T) {
	kind := func(k llm.Kind) *llm.Error { return &llm.Error{Kind: k} }
	for _, c := range []struct {
		name             string
		status, upstream int
		heard            bool
		err              *llm.Error
		want             verdict
	}{
		{"all well", 200, 200, true, nil, verdict{200, OK, ""}},
		{"own answer", 200, 0, false, nil, verdict{200, OK, ""}},
		{"nothing answered", 0, 0, false, nil, verdict{0, GatewayError, llm.Internal}},
		{"upstream answered, nobody else", 0, 200, true, nil, verdict{0, GatewayError, llm.Internal}},
		{"bad request", 0, 0, false, kind(llm.InvalidRequest), verdict{400, ClientError, llm.InvalidRequest}},
		{"no key", 0, 0, false, kind(llm.Authentication), verdict{401, ClientError, llm.Authentication}},
		{"no such model", 0, 0, false, kind(llm.NotFound), verdict{404, ClientError, llm.NotFound}},
		{"upstream says bad request", 400, 400, true, kind(llm.InvalidRequest), verdict{400, ClientError, llm.InvalidRequest}},
		{"own limit", 429, 0, false, kind(llm.RateLimit), verdict{429, ClientError, llm.RateLimit}},
		{"upstream's limit", 429, 429, true, kind(llm.RateLimit), verdict{429, UpstreamError, llm.RateLimit}},
		{"limit of an earlier attempt", 429, 0, true, kind(llm.RateLimit), verdict{429, UpstreamError, llm.RateLimit}},
		{"own overload", 503, 0, false, kind(llm.Overloaded), verdict{503, GatewayError, llm.Overloaded}},
		{"upstream's overload inside a stream", 200, 200, true, kind(llm.Overloaded), verdict{200, UpstreamError, llm.Overloaded}},
		{"unreachable", 502, 0, false, kind(llm.Upstream), verdict{502, UpstreamError, llm.Upstream}},
		{"cut stream", 200, 200, true, kind(llm.Upstream), verdict{200, UpstreamError, llm.Upstream}},
		{"key refused", 502, 401, true, kind(llm.UpstreamAuth), verdict{502, UpstreamError, llm.UpstreamAuth}},
		{"timeout", 504, 0, false, kind(llm.Timeout), verdict{504, UpstreamError, llm.Timeout}},
		{"client left", 0, 200, true, kind(llm.Cancelled), verdict{499, Cancelled, llm.Cancelled}},
		{"client left in mid-stream", 200, 200, true, kind(llm.Cancelled), verdict{200, Cancelled, llm.Cancelled}},
		{"client left, by status", 499, 0, false, nil, verdict{499, Cancelled, llm.Cancelled}},
		{"own fault", 500, 200, true, kind(llm.Internal), verdict{500, GatewayError, llm.Internal}},
		{"upstream's 500 under a general kind", 500, 500, true, kind(llm.Internal), verdict{500, UpstreamError, llm.Internal}},
		{"unknown kind", 0, 0, false, kind("made up"), verdict{500, GatewayError, llm.Internal}},
		{"status passed on: 401", 401, 401, true, nil, verdict{401, UpstreamError, llm.UpstreamAuth}},
		{"status passed on: 422", 422, 422, true, nil, verdict{422, ClientError, llm.InvalidRequest}},
		{"status passed on: 429", 429, 429, true, nil, verdict{429, UpstreamError, llm.RateLimit}},
		{"status passed on: 500", 500, 500, true, nil, verdict{500, UpstreamError, llm.Upstream}},
		{"status passed on: 504", 504, 504, true, nil, verdict{504, UpstreamError, llm.Timeout}},
		{"status passed on: 529", 529, 529, true, nil, verdict{529, UpstreamError, llm.Overloaded}},
		{"own 413 without an error", 413, 0, false, nil, verdict{413, ClientError, llm.InvalidRequest}},
		{"own 500 without an error", 500, 0, false, nil, verdict{500, GatewayError, llm.Internal}},
		{"no status at all", 999, 200, true, nil, verdict{0, GatewayError, llm.Internal}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := judge(c.status, c.upstream, c.heard, c.err); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestCauseWord(t *testing.T) {
	dial := func(err error) error {
		return &url.Error{Op: "Post", URL: "http://canary", Err: &net.OpError{Op: "dial", Err: err}}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "connection_refused"},
		{dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "unreachable"},
		{dial(&net.DNSError{Err: "no such host", Name: "canary", IsNotFound: true}), "dns"},
		{os.NewSyscallError("read", syscall.ECONNRESET), "connection_reset"},
		{&tls.CertificateVerificationError{Err: errors.New("canary")}, "tls"},
		{tls.RecordHeaderError{Msg: "canary"}, "tls"},
		{fmt.Errorf("canary: %w", context.DeadlineExceeded), "timeout"},
		{fmt.Errorf("canary: %w", context.Canceled), "cancelled"},
		{os.ErrDeadlineExceeded, "timeout"},
		{io.ErrUnexpectedEOF, "eof"},
		{errors.New("canary"), "other"},
	} {
		if got := causeWord(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
