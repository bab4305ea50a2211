package gemini

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// part writes any block but a call and a result. Some blocks have no part.
func (w *writer) part(b llm.Block, path string) []Part {
	m := b.Common()
	if m.Cache != nil {
		w.cached = true
	}
	p := Part{Extra: extra(m.Ext, "")}
	if s, ok := m.SealFor(own); ok {
		p.ThoughtSignature = wire.Some(s.Data)
	}
	switch b := b.(type) {
	case *llm.Text:
		if b.Text == "" && !p.ThoughtSignature.IsSet() && m.Ext.Protocol != own {
			return nil // the API wants something to read
		}
		if len(b.Citations) > 0 {
			w.report.Drop(path+".citations", "citation.history", "an earlier answer is sent without its sources")
		}
		p.Text = wire.Some(wire.NewText(b.Text))
	case *llm.Refusal:
		w.report.Approximate(path, "refusal.as_text", "an earlier refusal is sent as the answer's text")
		p.Text = wire.Some(wire.NewText(b.Text))
	case *llm.Thought:
		if !p.ThoughtSignature.IsSet() && m.Ext.Protocol != own || foreign(b.Seals) {
			w.report.Drop(path, "reasoning.foreign", "reasoning goes back only to whoever made it")
			return nil
		}
		p.Text, p.Thought = wire.Some(wire.NewText(b.Text(""))), wire.Some(true)
	case *llm.Media:
		if !w.media(b, &p, path) {
			return nil
		}
	case *llm.ServerCall:
		return w.serverCall(b, p, path)
	case *llm.Opaque:
		if b.Protocol != own {
			w.report.Refuse(path, "block.unknown", "a block of the type "+b.Type+" cannot be sent here")
			return nil
		}
		return rawParts(b.Raw)
	default:
		w.report.Refuse(path, "block.misplaced", "a call or a result stands where none can be")
		return nil
	}
	return []Part{p}
}

// rawParts is a part that is written as it came.
func rawParts(raw llm.Raw) []Part {
	var p Part
	if partShape.UnmarshalLenient([]byte(raw), &p) != nil {
		return nil
	}
	return []Part{p}
}

func (w *writer) serverCall(b *llm.ServerCall, p Part, path string) []Part {
	switch {
	case b.Protocol == own:
		return rawParts(b.Raw)
	case b.Digest == "":
		w.report.Drop(path, "server_tool.dropped", "what another vendor's tool did cannot be sent here")
		return nil
	}
	w.report.Approximate(path, "server_tool.digest", "what another vendor's tool did is told in words")
	p.Text = wire.Some(wire.NewText(b.Digest))
	return []Part{p}
}

// media fills the part, or reports that it cannot.
func (w *writer) media(b *llm.Media, p *Part, path string) bool {
	mine := b.Ext.Protocol == own
	if !mine {
		w.mediaLosses(b, path)
	}
	switch uri := b.URL + b.FileID; {
	case b.Data != "" || b.Text != "":
		p.InlineData = wire.Some(w.blob(b, path))
	case uri == "":
		w.report.Refuse(path, "media.empty", "there is no data in it")
		return false
	case mine, vendorURI(uri), youtube(uri):
		f := FileData{FileURI: wire.Some(uri), Extra: extra(b.Ext, atFile)}
		if b.MIME != "" {
			f.MIMEType = wire.Some(b.MIME)
		}
		p.FileData = wire.Some(f)
	case b.FileID != "":
		w.report.Refuse(path, "media.foreign_file", "the file is another vendor's; send its data")
		return false
	default:
		w.report.Refuse(path, "media.url", "the API does not fetch addresses; send the data itself")
		return false
	}
	return true
}

func youtube(uri string) bool {
	return strings.HasPrefix(uri, "https://www.youtube.com/watch") || strings.HasPrefix(uri, "https://youtu.be/")
}

func (w *writer) mediaLosses(b *llm.Media, path string) {
	if b.Name+b.Title+b.Context != "" {
		w.report.Drop(path+".name", "media.name", "a file has no name, title or context here")
	}
	if b.Detail != "" && b.Detail != "auto" {
		w.report.Drop(path+".detail", "media.detail", "how closely to look is set for the whole request here")
	}
}

// blob gives data, or a text as data.
func (w *writer) blob(b *llm.Media, path string) Blob {
	mime, data := b.MIME, b.Data
	if b.Data == "" {
		w.report.Approximate(path, "document.as_file", "a document in text is sent as a file")
		mime, data = mimeText, base64.StdEncoding.EncodeToString([]byte(b.Text))
	}
	switch mime {
	case "":
		head, _ := base64.StdEncoding.DecodeString(data[:min(len(data), 680)&^3])
		mime, _, _ = strings.Cut(http.DetectContentType(head), ";")
		w.report.Approximate(path, "media.type_guessed", "nothing says what it is; sent as "+mime)
	case "image/jpg":
		mime = "image/jpeg"
	}
	return Blob{MIMEType: wire.Some(mime), Data: wire.Some(data), Extra: extra(b.Ext, atBlob)}
}

// call writes a call, under an id that no other call in the conversation has.
func (w *writer) call(c *llm.ToolCall, path string) Part {
	f := FunctionCall{
		Name:  wire.Some(w.send(llm.ToolRef{Kind: c.Kind, Name: c.Name, Namespace: c.Namespace})),
		Extra: extra(c.Ext, atCall),
	}
	if c.Kind == llm.CustomTool {
		f.Args = wire.Raw(`{"input":` + string(quote(c.Args)) + `}`)
	} else {
		f.Args = w.args(c.Args, path)
	}
	if w.sent == nil {
		w.sent, w.ids = map[*llm.ToolCall]string{}, map[string]int{}
	}
	if !c.Synthetic && c.CallID != "" {
		id := c.CallID
		if w.ids[c.CallID]++; w.ids[c.CallID] > 1 {
			id += "_" + strconv.Itoa(w.ids[c.CallID])
		}
		f.ID = wire.Some(id)
		w.sent[c] = id
	}
	p := Part{FunctionCall: wire.Some(f), Extra: extra(c.Ext, "")}
	if s, ok := c.SealFor(own); ok {
		p.ThoughtSignature = wire.Some(s.Data)
	}
	return p
}

// args makes an object of a call's arguments, and reports where they were none.
func (w *writer) args(args, path string) wire.Raw {
	raw, wrapped := objectArgs(args)
	if wrapped {
		w.report.Approximate(path+".args", "args.wrapped", "the arguments are no JSON object and are sent inside one")
	}
	return raw
}

// objectArgs makes an object of a call's arguments. They are the model's own
// words: an object keeps its text, and nothing passes through a float.
func objectArgs(args string) (raw wire.Raw, wrapped bool) {
	raw = wire.Raw(strings.TrimSpace(args))
	valid := raw.IsValid(jsontext.AllowDuplicateNames(true))
	switch {
	case len(raw) == 0, string(raw) == "null":
		return wire.Raw("{}"), false
	case valid && raw.Kind() == '{':
		return wire.Raw(args), false
	case valid && raw.Kind() == '"':
		if s, err := unquote(raw); err == nil {
			if inner := wire.Raw(s); inner.Kind() == '{' && inner.IsValid() {
				return inner, false
			}
		}
	}
	if valid {
		return wire.Raw(`{"value":` + string(raw) + `}`), true
	}
	return wire.Raw(`{"_raw":` + string(quote(args)) + `}`), true
}

// result writes what a function gave. Media that the model cannot take inside
// the response are returned for a content of their own.
func (w *writer) result(r *llm.ToolResult, call *llm.ToolCall, path string) (p Part, media []Part) {
	if r.Cache != nil {
		w.cached = true
	}
	f := FunctionResponse{Name: wire.Some(toolName(llm.ToolRef{Kind: call.Kind, Name: call.Name, Namespace: call.Namespace}))}
	if id := w.sent[call]; id != "" {
		f.ID = wire.Some(id)
	}
	var texts []string
	var inside []FunctionOutput
	for _, b := range r.Blocks {
		switch b := b.(type) {
		case *llm.Text:
			texts = append(texts, b.Text)
		case *llm.Media:
			part := Part{Extra: extra(b.Ext, "")}
			if !w.media(b, &part, path) {
				continue
			}
			if r.Ext.Protocol == own || generation(w.target.Model) >= 3 {
				inside = append(inside, FunctionOutput{InlineData: part.InlineData, FileData: part.FileData})
			} else {
				media = append(media, part)
			}
		default:
			w.report.Refuse(path, "block.unknown", "a result holds text and media only")
		}
	}
	text := strings.Join(texts, "\n")
	if len(media) > 0 {
		w.report.Approximate(path, "tool_result.media_split", "media in a result follow it as the user's")
		text = strings.TrimSpace(text + " [the media follow]")
		note := Part{Text: wire.Some(wire.NewText("from the call of " + call.Name + ":"))}
		media = append([]Part{note}, media...)
	}
	f.Response = writeOutput(text, r.Failed)
	members := kept(r.Ext, atResponse)
	if raw, ok := members.Get("response"); ok {
		f.Response = raw
	} else if r.Ext.Protocol == own && r.Missing {
		f.Response = nil
	}
	f.Extra = wire.NewExtra(members)
	f.Extra.Delete("response")
	if len(inside) > 0 {
		f.Parts = wire.Some(inside)
	}
	p = Part{FunctionResponse: wire.Some(f), Extra: extra(r.Ext, "")}
	if s, ok := r.SealFor(own); ok {
		p.ThoughtSignature = wire.Some(s.Data)
	}
	return p, media
}
