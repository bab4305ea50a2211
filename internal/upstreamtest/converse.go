package upstreamtest

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// converseModel has the shapes of a Converse request, as the service model of the AWS SDKs
// describes them (bedrock-runtime, 2023-09-30).
//
//go:embed converse_model.json
var converseModel []byte

// shape describes a value of the service model.
type shape struct {
	Type     string            `json:"type"`
	Members  map[string]string `json:"members"`
	Required []string          `json:"required"`
	Member   string            `json:"member"`
	Key      string            `json:"key"`
	Value    string            `json:"value"`
	Min      *float64          `json:"min"`
	Max      *float64          `json:"max"`
	Pattern  string            `json:"pattern"`
	Enum     []string          `json:"enum"`
	Union    bool              `json:"union"`
	Document bool              `json:"document"`
}

// CheckConverse returns an error if a body is not a Converse request: it has a member that
// the service model does not have, lacks a required one, or has a value out of its bounds.
func CheckConverse(body []byte) error {
	var shapes map[string]shape
	if err := json.Unmarshal(converseModel, &shapes); err != nil {
		return err
	}
	c := converseChecker{shapes}
	if err := c.value("", "ConverseRequest", body); err != nil {
		return err
	}
	return checkTurns(body)
}

// checkTurns checks what the API demands beyond the service model.
func checkTurns(body []byte) error {
	var r struct {
		Messages []struct {
			Role    string                      `json:"role"`
			Content []map[string]jsontext.Value `json:"content"`
		} `json:"messages"`
		Tools jsontext.Value `json:"toolConfig"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	last := "assistant"
	for i, m := range r.Messages {
		if m.Role == last || len(m.Content) == 0 {
			return fmt.Errorf("messages[%d]: A conversation must alternate between user and assistant roles, and content must not be empty", i)
		}
		last = m.Role
		for _, b := range m.Content {
			if text := string(b["text"]); text != "" && strings.TrimSpace(strings.Trim(text, `"`)) == "" {
				return fmt.Errorf("messages[%d]: The text field in the ContentBlock object is blank", i)
			}
			if (b["toolUse"] != nil || b["toolResult"] != nil) && r.Tools == nil {
				return fmt.Errorf("messages[%d]: The toolConfig field must be defined when using toolUse and toolResult content blocks", i)
			}
		}
	}
	return nil
}

type converseChecker struct{ shapes map[string]shape }

func (c converseChecker) value(at, name string, v jsontext.Value) error {
	s := c.shapes[name]
	switch s.Type {
	case "structure":
		return c.structure(at, s, v)
	case "list":
		var items []jsontext.Value
		if err := json.Unmarshal(v, &items); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		for i, item := range items {
			if err := c.value(fmt.Sprintf("%s[%d]", at, i), s.Member, item); err != nil {
				return err
			}
		}
		return bounds(at, s, float64(len(items)))
	case "map":
		var o map[string]jsontext.Value
		if err := json.Unmarshal(v, &o); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		for k, item := range o {
			if err := c.value(at+"."+k, s.Key, jsontext.Value(`"`+k+`"`)); err != nil {
				return err
			}
			if err := c.value(at+"."+k, s.Value, item); err != nil {
				return err
			}
		}
		return bounds(at, s, float64(len(o)))
	}
	return scalar(at, s, v)
}

func (c converseChecker) structure(at string, s shape, v jsontext.Value) error {
	if s.Document {
		return nil
	}
	var o map[string]jsontext.Value
	if err := json.Unmarshal(v, &o); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if s.Union && len(o) != 1 {
		return fmt.Errorf("%s: a union with %d members", at, len(o))
	}
	for _, name := range s.Required {
		if o[name] == nil {
			return fmt.Errorf("%s: %s is missing", at, name)
		}
	}
	for name, member := range o {
		kind, ok := s.Members[name]
		if !ok {
			return fmt.Errorf("%s: unknown member %s", at, name)
		}
		if err := c.value(strings.TrimPrefix(at+"."+name, "."), kind, member); err != nil {
			return err
		}
	}
	return nil
}

func scalar(at string, s shape, v jsontext.Value) error {
	switch s.Type {
	case "boolean":
		if v.Kind() != 't' && v.Kind() != 'f' {
			return fmt.Errorf("%s: %s is not a boolean", at, v)
		}
	case "integer", "long", "float", "double":
		var n float64
		if err := json.Unmarshal(v, &n); err != nil || strings.HasPrefix(s.Type, "i") && n != float64(int64(n)) {
			return fmt.Errorf("%s: %s is not a number of the type %s", at, v, s.Type)
		}
		return bounds(at, s, n)
	case "blob", "string":
		var text string
		if err := json.Unmarshal(v, &text); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if s.Type == "blob" {
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			return bounds(at, s, float64(len(data)))
		}
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
			return fmt.Errorf("%s: %q is not one of %v", at, text, s.Enum)
		}
		if s.Pattern != "" && !regexp.MustCompile(`^(?:`+s.Pattern+`)$`).MatchString(text) {
			return fmt.Errorf("%s: %q does not match %s", at, text, s.Pattern)
		}
		return bounds(at, s, float64(len([]rune(text))))
	}
	return nil
}

func bounds(at string, s shape, n float64) error {
	if s.Min != nil && n < *s.Min || s.Max != nil && n > *s.Max {
		return fmt.Errorf("%s: %v is out of bounds", at, n)
	}
	return nil
}

// conversePath matches the paths of the API.
var conversePath = regexp.MustCompile(`^/model/[A-Za-z0-9._~%-]+/converse(-stream)?$`)

// Converse responds to Converse with a body, and to ConverseStream with frames of these
// events, in pieces of n bytes. It rejects a request that the API would not accept.
func Converse(body, events string, n int) Script {
	return func(c *Conn) {
		err := CheckConverse(c.Request.Body)
		at := conversePath.FindStringSubmatch(c.Request.Path)
		switch {
		case at == nil:
			c.Whole(http.StatusNotFound, "application/json", `{"message":"no such path"}`, "x-amzn-ErrorType", "UnknownOperationException")
		case !strings.HasPrefix(c.Request.Header.Get("Authorization"), "Bearer "):
			c.Whole(http.StatusForbidden, "application/json", `{"message":"Missing Authentication Token"}`, "x-amzn-ErrorType", "MissingAuthenticationTokenException")
		case err != nil:
			c.Whole(http.StatusBadRequest, "application/json", fmt.Sprintf(`{"message":%q}`, err), "x-amzn-ErrorType", "ValidationException:http://internal.amazon.com/")
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
