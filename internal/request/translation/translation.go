// Package translation translates a body or a stream between dialects, for a person who wants to see
// the result. It opens no connection and stores nothing.
package translation

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/gates"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
	"github.com/isogloss-gateway/isogloss/sse"
)

// Translation describes a body or a stream to translate from one dialect to another.
type Translation struct {
	From, To string
	Kind     string // request, response or stream
	Model    string // the upstream's name of the model; empty keeps the request's
	Stream   bool   // translate as a streaming request, for dialects that have the flag in the path
	Mode     llm.Mode
}

// unnamed is the model of a translated request if neither the input nor the caller names one, as
// in dialects that have the model in the path.
const unnamed = "MODEL"

// Translated is the result of a Translation.
type Translated struct {
	Body   []byte     `json:"-"`
	Path   string     `json:"path,omitempty"`
	Losses []llm.Loss `json:"losses"`
}

// Run translates the input.
func (t Translation) Run(in []byte) (*Translated, error) {
	from, err := codecNamed(t.From)
	if err != nil {
		return nil, err
	}
	to, err := codecNamed(t.To)
	if err != nil {
		return nil, err
	}
	report := llm.Report{Mode: t.Mode}
	out := &Translated{Losses: []llm.Loss{}}
	var fault *llm.Error
	switch t.Kind {
	case "request":
		fault = t.request(from, to, in, &report, out)
	case "response":
		resp, e := from.DecodeResponse(in)
		if fault = e; e == nil {
			out.Body = to.EncodeResponse(resp, &llm.Request{}, &report)
		}
	case "stream":
		err = translateStream(from, to, in, &report, out)
	default:
		return nil, fmt.Errorf("--kind is %q; write request, response or stream", t.Kind)
	}
	out.Losses = append(out.Losses, report.Losses...)
	if fault != nil {
		return out, fault
	}
	return out, err
}

func (t Translation) request(from, to protocol.Translator, in []byte, report *llm.Report, out *Translated) *llm.Error {
	req, err := from.DecodeRequest(protocol.Incoming{Body: in, Stream: t.Stream})
	if err != nil {
		return err
	}
	if t.Stream {
		req.Stream = true
	}
	model := cmp.Or(t.Model, req.Model, unnamed)
	sent, err := to.EncodeRequest(req, protocol.Target{Model: model, Gates: (*gates.Table)(nil).For(to.Name(), model)}, report)
	out.Body, out.Path = sent.Body, sent.Path
	refused := report.Err()
	dialectNamed(t.From).NameFields(from, protocol.Incoming{Body: in, Stream: t.Stream}, req, report.Losses)
	if err != nil && refused != nil && err.Message == refused.Message {
		err = report.Err()
	}
	return err
}

func translateStream(from, to protocol.Translator, in []byte, report *llm.Report, out *Translated) error {
	reader := sse.NewReader(bytes.NewReader(in), sse.Options{})
	decoder, encoder := from.NewStreamDecoder(), to.NewStreamEncoder(&llm.Request{Stream: true, IncludeUsage: true})
	var events []llm.Event
	for {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if e.HasData {
			events = decoder.Decode(e.Name, e.Data, events)
		}
	}
	if e, ok := reader.Last(); ok {
		events = decoder.Decode(e.Name, e.Data, events)
	}
	var whole llm.Collector
	for _, e := range decoder.Finish(events) {
		out.Body = encoder.Encode(e, out.Body)
		if err := whole.Add(e); err != nil {
			return err
		}
	}
	// A stream has the same losses as the non-streaming response. A stream that breaks off
	// contains its own error.
	if resp, err := whole.Response(); err == nil {
		to.EncodeResponse(resp, &llm.Request{}, report)
	}
	return nil
}

// Dialects returns the names of the dialects.
func Dialects() []string {
	var list []string
	for _, name := range all.Names() {
		list = append(list, string(name))
	}
	return list
}

// dialectNamed returns the dialect of a codec that codecNamed has found.
func dialectNamed(name string) *codec.Dialect {
	list := all.Dialects()
	return list[slices.IndexFunc(list, func(d *codec.Dialect) bool { return string(d.Name) == name })]
}

func codecNamed(name string) (protocol.Translator, error) {
	for _, c := range all.Codecs() {
		if string(c.Name()) == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("there is no dialect %q; write one of %v", name, all.Names())
}
