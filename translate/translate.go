package translate

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/conversation"
	"github.com/isogloss-gateway/isogloss/internal/codec/gates"
	"github.com/isogloss-gateway/isogloss/internal/codec/pair"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Options says between which dialects a [Translator] translates. Client and Upstream are required.
type Options struct {
	Client   protocol.Name
	Upstream protocol.Name

	// Model is the upstream's name of the model. Empty: the name that the client sends.
	Model string
	// Version is the version of the upstream's dialect. Empty: the dialect's default.
	Version string
	// Engine says that the upstream is not the vendor's own server, but one of its dialect, such as vLLM. It takes no
	// custom tools, and ids of any length.
	Engine bool
	// Gates are the parameters that the model rejects. Nil: the built-in rules for the model's name.
	Gates *protocol.Gates

	// Mode says what happens to a request that the upstream's dialect cannot express. Empty: llm.Default.
	Mode llm.Mode

	// Memory keeps what later requests of a conversation need. It belongs to one user: who shares it may refer to the
	// responses in it. Nil: nothing is kept.
	Memory Memory

	// Now replaces the clock, and NewID the random id of a response for which the upstream sends none.
	Now   func() time.Time
	NewID func() string

	// MaxEvent is the size of the largest event of a stream; 0: 16 MiB. MaxResponse is the size of the largest response
	// that is collected from a stream; 0: 64 MiB.
	MaxEvent    int
	MaxResponse int
}

// Memory keeps values under keys. It may forget any of them.
type Memory interface {
	Load(key string) (value []byte, ok bool)
	Store(key string, value []byte)
}

// NewMemory returns a Memory of at most maxBytes in this process. It forgets a value an hour after its last use.
func NewMemory(maxBytes int64) Memory { return conversation.NewValues(maxBytes) }

const (
	defaultMaxEvent    = 16 << 20
	defaultMaxResponse = 64 << 20
)

// Translator translates between a client's and an upstream's dialect.
type Translator struct {
	options          Options
	client, upstream *codec.Dialect
	route            *codec.Route            // of the client's requests
	seals            *conversation.Seals     // nil: there is no memory
	responses        *conversation.Responses // nil: there is no memory
}

// New returns a Translator.
func New(o Options) (*Translator, error) {
	o.Now, o.MaxEvent, o.MaxResponse, o.Mode = orNow(o.Now), cmp.Or(o.MaxEvent, defaultMaxEvent), cmp.Or(o.MaxResponse, defaultMaxResponse), cmp.Or(o.Mode, llm.Default)
	if o.NewID == nil {
		o.NewID = rand.Text
	}
	t := &Translator{options: o}
	for _, d := range all.Dialects() {
		if d.Name == o.Client {
			t.client = d
		}
		if d.Name == o.Upstream {
			t.upstream = d
		}
	}
	switch {
	case t.client == nil:
		return nil, fmt.Errorf("translate: there is no client dialect %q; write one of %v", o.Client, protocol.Names())
	case t.upstream == nil:
		return nil, fmt.Errorf("translate: there is no upstream dialect %q; write one of %v", o.Upstream, protocol.Names())
	case !slices.Contains([]llm.Mode{llm.Strict, llm.Default, llm.Loose}, o.Mode):
		return nil, fmt.Errorf("translate: there is no mode %q; write strict, default or loose", o.Mode)
	}
	if o.Client == o.Upstream {
		t.upstream = t.client
	}
	t.route = &t.client.Routes[slices.IndexFunc(t.client.Routes, func(r codec.Route) bool { return r.Operation == codec.Generate })]
	if o.Memory != nil {
		t.seals, t.responses = conversation.NewSealsIn(o.Memory), conversation.NewResponsesIn(o.Memory)
	}
	return t, nil
}

func orNow(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

// Request translates the body of a client's request. A Gemini or Converse client names the model and asks for a stream in
// its path: see [Translator.RequestTo].
func (t *Translator) Request(body []byte) (*Exchange, error) {
	return t.RequestTo("", nil, body)
}

// RequestTo translates a client's request to a path, with its query, and headers. Both may be empty; the version of the
// client's dialect is then the default.
func (t *Translator) RequestTo(path string, header http.Header, body []byte) (*Exchange, error) {
	x := &Exchange{translator: t, pair: pair.Pair{Client: t.client, Upstream: t.upstream, Model: t.options.Model}, id: t.options.NewID(), created: t.options.Now().Unix()}
	if err := x.translate(path, header, body); err != nil {
		return nil, err
	}
	return x, nil
}

// Error writes an error as clients of the dialect expect it.
func (t *Translator) Error(err error) *Response {
	e := asError(err)
	h := http.Header{"Content-Type": {"application/json"}}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(e.RetryAfter.Seconds())), 10))
	}
	return &Response{Status: t.client.Codec.ErrorStatus(e), Header: h, Body: t.client.Codec.EncodeError(e)}
}

// locate reads what the path and the headers of a request say.
func (t *Translator) locate(path string, header http.Header) (codec.Location, *llm.Error) {
	at := codec.Location{Route: t.route, URLPath: t.route.Path}
	if path != "" {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return at, &llm.Error{Kind: llm.InvalidRequest, Message: "the path of the request cannot be read", Cause: err}
		}
		req := &http.Request{Method: http.MethodPost, URL: u, Header: header}
		if t.client.Locate != nil && u.Path != t.route.Path {
			found, ok, fault := t.client.Locate(req)
			switch {
			case fault != nil:
				return at, fault
			case !ok || found.Operation != codec.Generate:
				return at, &llm.Error{Kind: llm.NotFound, Message: "the path " + u.Path + " does not generate a response in the dialect " + string(t.client.Name)}
			}
			at = found
		}
	}
	if v := t.client.Versions; v != nil && v.Header != "" {
		at.Version = header.Get(v.Header)
	}
	return at, nil
}

// target describes the upstream to its encoder.
func (t *Translator) target(model string) protocol.Target {
	out := protocol.Target{Model: model, Version: t.options.Version}
	if t.options.Gates != nil {
		out.Gates = *t.options.Gates
	} else {
		out.Gates = (*gates.Table)(nil).For(t.upstream.Name, model)
		out.Gates.NoCustom, out.Gates.LongIDs = t.options.Engine, t.options.Engine
	}
	if v := t.upstream.Versions; v != nil && slices.ContainsFunc(v.Known, func(v codec.Version) bool { return v.Name == t.options.Version && v.NoSampling }) {
		out.Gates.NoSampling = true
	}
	return out
}

// translate translates a client's request.
func (x *Exchange) translate(path string, header http.Header, body []byte) error {
	t := x.translator
	at, err := t.locate(path, header)
	if err != nil {
		return err
	}
	index, bad := wire.IndexObject(body, t.client.Members...)
	if bad != nil {
		return codec.InvalidBody(bad)
	}
	x.input = index
	unsigned := t.client.Unsigned
	if t.client == t.upstream && !codec.HasForeign(body, t.client.Name) && (unsigned == nil || !unsigned(&index, cmp.Or(t.options.Model, at.Model))) {
		return x.forward(at, header, index)
	}
	report := &llm.Report{Mode: t.options.Mode}
	for _, ext := range t.client.Extensions {
		if index.Raw(ext.Member) != nil && report.Mode != llm.Loose && t.client != t.upstream {
			return &llm.Error{Kind: llm.InvalidRequest, Code: "unsupported_parameter", Param: ext.Member,
				Message: "the dialect " + string(t.upstream.Name) + " has no " + ext.Member + "; leave it out, or translate in the mode loose"}
		}
	}
	previous, err := x.expand(body)
	if err != nil {
		return err
	}
	in := protocol.Incoming{Body: x.input.Text(), Path: at.URLPath, Stream: at.Stream, Version: at.Version}
	req, err := t.client.Codec.DecodeRequest(in)
	if err != nil {
		return err
	}
	if t.client.Stored != nil && t.client != t.upstream {
		if err := t.client.Stored.CheckExpanded(req); err != nil {
			return err
		}
	}
	x.pair.ClientModel = req.Model
	x.pair.Model = cmp.Or(t.options.Model, req.Model, at.Model)
	send := *req
	send.Turns = x.pair.Turns(req.Turns, x.restore)
	send.IncludeUsage = true
	pair.ReportSampling(t.client, at.Version, req, report)
	if t.client.Report != nil {
		t.client.Report(report)
	}
	out, err := t.upstream.Codec.EncodeRequest(&send, t.target(x.pair.Model), report)
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		return t.named(in, req, report, err)
	}
	if previous != "" {
		req.State.PreviousID = previous // the response repeats it
	}
	x.Path, x.Header, x.Body, x.Streams = out.Path, out.Header, out.Body, send.Stream
	if x.Header == nil {
		x.Header = http.Header{}
	}
	x.Header.Set("Content-Type", "application/json")
	for _, rule := range t.client.Headers.Request {
		if rule.Loss != "" && len(header.Values(rule.Name)) > 0 {
			report.Losses = append(report.Losses, llm.Loss{Path: http.CanonicalHeaderKey(rule.Name), Verdict: llm.Dropped, Code: rule.Loss, Note: "the header means nothing to the upstream"})
		}
	}
	x.request, x.undo, x.choices = req, llm.Undo{Names: out.Names}, pair.Choices(&send, report)
	if x.Losses = report.Losses; len(x.Losses) > 0 {
		t.client.NameFields(t.client.Codec, in, req, x.Losses)
	}
	return nil
}

// named returns the error of a request that a loss rejects with the client's own name of the field.
func (t *Translator) named(in protocol.Incoming, req *llm.Request, report *llm.Report, err *llm.Error) *llm.Error {
	if refused := report.Err(); refused == nil || refused.Message != err.Message {
		return err
	}
	t.client.NameFields(t.client.Codec, in, req, report.Losses)
	return report.Err()
}

// expand replaces references to stored responses. It returns the id of the response that the request continues.
func (x *Exchange) expand(body []byte) (previous string, err *llm.Error) {
	t := x.translator
	if t.responses == nil || t.client == t.upstream {
		return "", nil
	}
	expanded, err := t.responses.Expand(t.client.Stored, conversation.Caller{}, body, int64(t.options.MaxResponse))
	if expanded == nil || err != nil {
		return "", err
	}
	index, bad := wire.IndexObject(expanded.Body, t.client.Members...)
	if bad != nil {
		return "", codec.InvalidBody(bad)
	}
	x.input = index
	return expanded.PreviousID, nil
}

// restore adds the stored reasoning to turns.
func (x *Exchange) restore(origin string, turns []llm.Turn) []llm.Turn {
	if x.translator.seals == nil {
		return turns
	}
	return x.translator.seals.Restore(conversation.Caller{}, origin, turns)
}

// forward sends a request to an upstream of the client's dialect. Only the name of the model changes.
func (x *Exchange) forward(at codec.Location, header http.Header, index wire.Index) error {
	t, d := x.translator, x.translator.client
	head, err := d.Read(at, &index)
	if err != nil {
		return err
	}
	x.passes, x.request = true, &llm.Request{Model: head.Model, Stream: head.Stream}
	x.pair.ClientModel, x.pair.Model, x.choices = head.Model, cmp.Or(t.options.Model, head.Model), max(1, head.Choices)
	x.Path, x.Body, x.Streams = at.URLPath, index.Text(), head.Stream
	if d.UpstreamPath != nil {
		if x.Path, err = d.UpstreamPath(at, t.target(x.pair.Model), head.Stream); err != nil {
			return err
		}
	}
	if d.SetModel != nil && x.pair.Model != head.Model {
		x.Body = wire.Patch(x.Body, []wire.Edit{d.SetModel(&index, x.pair.Model)})
	}
	x.Header = http.Header{"Content-Type": {"application/json"}}
	for _, rule := range d.Headers.Request {
		if v := header.Values(rule.Name); len(v) > 0 {
			x.Header[rule.Name] = v
		} else if rule.Default != "" {
			x.Header[rule.Name] = []string{rule.Default}
		}
	}
	return nil
}
