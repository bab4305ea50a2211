package upstreamtest

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/conform"
)

// conversePath matches the paths of the API.
var conversePath = regexp.MustCompile(`^/model/[A-Za-z0-9._~%-]+/converse(-stream)?$`)

// Converse responds to Converse with a body, and to ConverseStream with frames of these
// events, in pieces of n bytes. It rejects a request that the API would not accept.
func Converse(body, events string, n int) Script {
	return func(c *Conn) {
		problems := conform.Converse.ReadRequest(c.Request.Path, c.Request.Header, c.Request.Body).Problems
		at := conversePath.FindStringSubmatch(c.Request.Path)
		switch {
		case at == nil:
			c.Whole(http.StatusNotFound, "application/json", `{"message":"no such path"}`, "x-amzn-ErrorType", "UnknownOperationException")
		case !strings.HasPrefix(c.Request.Header.Get("Authorization"), "Bearer "):
			c.Whole(http.StatusForbidden, "application/json", `{"message":"Missing Authentication Token"}`, "x-amzn-ErrorType", "MissingAuthenticationTokenException")
		case len(problems) > 0:
			c.Whole(http.StatusBadRequest, "application/json", fmt.Sprintf(`{"message":%q}`, problems[0]), "x-amzn-ErrorType", "ValidationException:http://internal.amazon.com/")
		case at[1] == "":
			c.Whole(http.StatusOK, "application/json", body, "x-amzn-RequestId", "r1")
		default:
			c.call.Head(http.StatusOK, "application/vnd.amazon.eventstream", -1, "x-amzn-RequestId", "r1")
			for rest := Frames(events); len(rest) > 0; rest = rest[min(n, len(rest)):] {
				if !c.Chunk(rest[:min(n, len(rest))]) {
					return
				}
			}
			c.EndStream()
		}
		c.KeepAlive()
	}
}

// Frames returns the frames of a stream whose events are written as server-sent events.
func Frames(events string) string {
	var out bytes.Buffer
	encoder := eventstream.NewEncoder()
	for line := range strings.Lines(events) {
		data, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "data: ")
		var o map[string]jsontext.Value
		if !ok || json.Unmarshal([]byte(data), &o) != nil {
			continue
		}
		for name, payload := range o {
			kind, header := "event", ":event-type"
			if strings.HasSuffix(name, "Exception") {
				kind, header = "exception", ":exception-type"
			}
			m := eventstream.Message{Payload: payload}
			m.Headers.Set(header, eventstream.StringValue(name))
			m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
			m.Headers.Set(":message-type", eventstream.StringValue(kind))
			_ = encoder.Encode(&out, m) // a buffer takes everything
		}
	}
	return out.String()
}
