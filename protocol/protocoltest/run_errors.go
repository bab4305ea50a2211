package protocoltest

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// readAs maps the kind of an encoded error to the kind after decoding, if they differ. A
// client's authentication error is an error of the gateway's credential when it comes
// from an upstream, and an internal error is an upstream error.
var readAs = map[llm.Kind]llm.Kind{
	llm.InvalidRequest: llm.InvalidRequest, llm.Authentication: llm.UpstreamAuth, llm.Permission: llm.Permission,
	llm.NotFound: llm.NotFound, llm.TooLarge: llm.TooLarge, llm.RateLimit: llm.RateLimit, llm.Quota: llm.Quota,
	llm.Overloaded: llm.Overloaded, llm.Timeout: llm.Timeout, llm.Upstream: llm.Upstream, llm.Internal: llm.Upstream,
	llm.UpstreamAuth: llm.Upstream,
}

// errorLaws checks that an error is the same after encoding and decoding, as a response
// and inside a stream.
func errorLaws(t *testing.T, c protocol.Translator) {
	for kind, want := range readAs {
		e := &llm.Error{Kind: kind, Message: `what is "wrong": é`}
		status := c.ErrorStatus(e)
		header := http.Header{"Retry-After": {"7"}}
		got := c.DecodeError(status, header, c.EncodeError(e))
		if got.Kind != want || got.Message != e.Message || !got.Relayed || got.RetryAfter != 7*time.Second {
			t.Errorf("%s became %d and then %s", kind, status, DumpError(got))
		}
		stream := c.EncodeStreamError(e)
		if ending, err := Check(c.Name(), stream); ending != Failed || err != nil {
			t.Errorf("%s in a stream: ends %s: %v\n%s", kind, ending, err, stream)
		}
		events, err := ReadStream(c, bytes.NewReader(stream))
		if err != nil || len(events) != 1 {
			t.Errorf("%s in a stream: %v %s", kind, err, DumpEvents(events))
			continue
		}
		if f, ok := events[0].(llm.Failure); !ok || f.Err.Message != e.Message {
			t.Errorf("%s in a stream: %s", kind, DumpEvents(events))
		}
	}
	oddErrors(t, c)
}

// oddErrors checks error responses in unusual forms. DecodeError must find the message if
// there is one, and use the status if the body has no kind (ERR-03, ERR-04, ERR-13).
func oddErrors(t *testing.T, c protocol.Translator) {
	for _, o := range []struct {
		status  int
		body    string
		kind    llm.Kind
		message string // empty: any, but not none
	}{
		{400, `{"error":"words"}`, llm.InvalidRequest, "words"},
		{422, `{"detail":"words"}`, llm.InvalidRequest, "words"},
		{422, `{"detail":[{"loc":["body"],"msg":"words"}]}`, llm.InvalidRequest, "words"},
		{400, `{"message":"words"}`, llm.InvalidRequest, "words"},
		{400, `{"errors":["words"]}`, llm.InvalidRequest, "words"},
		{400, `{"object":"error","message":"words","code":400}`, llm.InvalidRequest, "words"},
		{400, `[{"error":{"message":"words","code":400}}]`, llm.InvalidRequest, "words"},
		{400, `{"error":{"message":"words","code":400}}`, llm.InvalidRequest, "words"},
		{429, `{"error":{"message":"words","code":null,"type":null}}`, llm.RateLimit, "words"},
		{502, `<html><body>Bad gateway</body></html>`, llm.Upstream, ""},
		{503, ``, llm.Overloaded, ""},
		{504, `upstream request timeout`, llm.Timeout, ""},
		{529, `{}`, llm.Overloaded, ""},
		{401, `{"error":null}`, llm.UpstreamAuth, ""},
		{402, `{"error":{}}`, llm.Quota, ""},
		{403, `null`, llm.Permission, ""},
		{404, `"words"`, llm.NotFound, ""},
		{500, `{"error":{"message":null}}`, llm.Upstream, ""},
		{418, `7`, llm.InvalidRequest, ""},
	} {
		e := c.DecodeError(o.status, nil, []byte(o.body))
		switch {
		case e.Kind != o.kind:
			t.Errorf("%d %s: kind %s, want %s", o.status, o.body, e.Kind, o.kind)
		case e.Message == "" || strings.Contains(e.Message, "null") || strings.Contains(e.Message, "<html"):
			t.Errorf("%d %s: message %q", o.status, o.body, e.Message)
		case !strings.Contains(e.Message, o.message):
			t.Errorf("%d %s: message %q lacks %q", o.status, o.body, e.Message, o.message)
		}
	}
}
