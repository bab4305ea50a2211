package exchange

import (
	"net/http"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/gates"
	"github.com/isogloss-gateway/isogloss/internal/targets/params"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Limits is the maximum sizes of what is held in memory.
type Limits struct {
	// Body of a request.
	Body int64 `key:"body" is:"bytes" default:"64MiB" minimum:"1KiB" example:"128MiB"`
	// One event of a stream.
	Event int64 `key:"event" is:"bytes" default:"16MiB" minimum:"1KiB" example:"32MiB"`
	// Non-streaming response, also one assembled from a stream.
	Answer int64 `key:"answer" is:"bytes" default:"64MiB" minimum:"1KiB" example:"128MiB"`
	// Conversation store for previous_response_id and item_reference of the Responses
	// API on upstreams that store nothing. In memory only; an entry expires an hour
	// after its last use. With 0 nothing is stored and such requests are refused.
	Conversations int64 `key:"conversations" is:"bytes" default:"64MiB" example:"256MiB"`
	// Open requests of one HTTP/2 connection of a client. More wait at the client. A
	// connection holds at most 1 MiB that the gateway has not read, and the prompts of
	// its requests.
	Streams int `key:"streams" default:"1000" minimum:"1" maximum:"100000" restart:"yes" example:"250"`
}

// Check checks that an answer can hold its events.
func (l *Limits) Check(at *settings.At) {
	if l.Event > l.Answer {
		at.Wrong("event", "is more than limits.answer (%s), which holds it; write a smaller size, or a larger answer", settings.FormatSize(l.Answer))
	}
}

// Settings are the parts of the configuration that lanes read.
type Settings struct {
	Limits   Limits
	Gates    *gates.Table
	Fidelity llm.Mode // the default mode; empty means llm.Default

	// SaltKey is the key of the salts for prefix caches, the same on all nodes.
	SaltKey []byte
	// Shared reports whether several organisations have keys. Nil: they do not.
	Shared func() bool
}

// IsShared reports whether several organisations have keys.
func (s *Settings) IsShared() bool { return s.Shared != nil && s.Shared() }

// RefusesUnknown reports whether a provider refuses ids whose owner is not known.
func (s *Settings) RefusesUnknown(p *provider.Provider) bool {
	return p.UnknownIDs == provider.RefuseUnknown || p.UnknownIDs == "" && s.IsShared()
}

// Call is one client request. The steps before the first attempt build it. Afterwards it
// does not change, except that Release drops its body and AddOwner records its owner.
type Call struct {
	ID      string
	Dialect *codec.Dialect // the client's dialect
	codec.Location
	Client   *http.Request // the client's request, with its body already read
	CallerID string        // owner of stored conversations
	Tenant   string        // of the caller; empty without keys
	Limited  bool          // the caller has limits of the gateway's, which the upstream's rate limits are not
	Body     *Body         // nil for a forwarded path
	Settings *Settings

	// Stored is the part of the request that is stored with its response. If the request
	// had no references to expand it is nil, and the body is used.
	Stored     []byte
	PreviousID string // id of the previous response, if it was expanded
	Continue   bool   // another target continues a truncated stream
	Params     *params.Set

	keeps bool // the vendor keeps the response, and its owner is not recorded yet
	// inner are the upstream names of the inner models that are not the call's own.
	inner map[innerModel]string
}

// Generates reports whether the call generates text.
func (c *Call) Generates() bool {
	return c.Operation == codec.Generate || c.Operation == codec.Complete || c.Operation == codec.Compact
}

// maxChoices limits the number of choices. It is more than any vendor generates, and
// small enough that products do not overflow.
const maxChoices = 1 << 16

// OutputLimit returns the limit of output tokens that is sent, and the number of choices.
// Both are 0 if the call does not generate text.
func (c *Call) OutputLimit() (limit, choices int64) {
	if !c.Generates() {
		return 0, 0
	}
	return c.Params.MaxOutput(c.Body.MaxOutput), min(c.Body.Generated, maxChoices)
}

// Streams reports whether the client requested a stream.
func (c *Call) Streams() bool { return c.Body != nil && c.Body.Stream }

// Continues reports whether another target continues the stream if it is truncated. Such
// a stream goes through the neutral model, which can join two parts.
func (c *Call) Continues() bool {
	return c.Continue && c.Operation == codec.Generate && c.Body.Stream && len(c.inner) == 0
}

// Incoming returns the request as codecs read it.
func (c *Call) Incoming() protocol.Incoming {
	return protocol.Incoming{Body: c.Body.Text(), Path: c.URLPath, Stream: c.Body.Stream, Version: c.Version}
}

// Release drops the body. Afterwards no further attempt is possible.
func (c *Call) Release() {
	if c.Body != nil {
		c.Body.release()
	}
	c.Stored = nil
}

// ModeHeader is the header in which a client sets the fidelity mode of a request.
const ModeHeader = "Isogloss-Fidelity-Mode"

// NewReport returns a report in the mode that the client requested, or in the configured
// one.
func (c *Call) NewReport() (*llm.Report, *llm.Error) {
	sent := c.Client.Header.Get(ModeHeader)
	switch mode := llm.Mode(strings.ToLower(sent)); mode {
	case llm.Strict, llm.Default, llm.Loose:
		return &llm.Report{Mode: mode}, nil
	case "":
	default:
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: ModeHeader,
			Message: ModeHeader + " is '" + Printable(sent) + "'; send strict, default or loose"}
	}
	if c.Settings.Fidelity != "" {
		return &llm.Report{Mode: c.Settings.Fidelity}, nil
	}
	return &llm.Report{Mode: llm.Default}, nil
}

// Target is an upstream that can serve a call.
type Target struct {
	route.Target
	Dialect *codec.Dialect // the upstream's dialect
}

// Lane encodes calls for targets. There are two lanes: verbatim and translate.
type Lane interface {
	Prepare(c *Call, t *Target, o Options) (Prepared, *llm.Error)
}

// Options holds the request path's decisions about one attempt.
type Options struct {
	IncludeUsage bool // request usage on a stream although the client did not
	Stream       bool // request a stream although the client did not
}

// Prepared is a call that is encoded for one target. It delivers that target's response
// to the client.
type Prepared interface {
	// Request returns the upstream request.
	Request() *Request

	// Deliver sends the target's response to the client. It returns an error only if the
	// client has not received it. An error that it has delivered is in the delivery's
	// record.
	Deliver(d *Delivery) *llm.Error

	// Summary returns the id, model, finish reason and usage of the response.
	Summary() protocol.Summary

	// Fidelity returns the value of the Isogloss-Fidelity header.
	Fidelity() string

	// Losses returns what Fidelity counts.
	Losses() []llm.Loss

	// EncodeStreamError returns the error event that ends a started stream.
	EncodeStreamError(err *llm.Error) []byte
}

// Request is an upstream request.
type Request struct {
	Path   string // relative to the provider's base URL
	Header http.Header
	Body   []byte
	Stream bool // it requests a stream

	// RejectedKey is a status, other than 401, with which the target rejects the
	// gateway's credential; 0 if there is none.
	RejectedKey int
	// AddedUsage is set if the gateway requests usage and the client did not.
	AddedUsage bool
}

// NameLosses returns losses with the names that the client's own request gives to the fields.
func (c *Call) NameLosses(losses []llm.Loss) []llm.Loss {
	losses = slices.Clone(losses)
	if request, err := c.Dialect.Codec.DecodeRequest(c.Incoming()); err == nil {
		c.Dialect.NameFields(c.Dialect.Codec, c.Incoming(), request, losses)
	}
	return losses
}

// Printable shortens a client's text and replaces control characters, so that a message
// can quote it.
func Printable(s string) string {
	const maxLength = 128
	if len(s) > maxLength {
		s = s[:maxLength] + "…"
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, s)
}
