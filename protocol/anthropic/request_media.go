package anthropic

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// imageTypes lists the image types that the API accepts.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// decodeSearchResult decodes a search result as a text document, and keeps the
// original block.
func decodeSearchResult(raw wire.Raw) *llm.Media {
	var w struct {
		Title        string                 `json:"title"`
		CacheControl wire.Opt[CacheControl] `json:"cache_control"`
	}
	_ = json.Unmarshal(raw, &w, wire.Lenient) // what cannot be read is still in Ext
	meta := llm.Meta{Cache: decodeCache(w.CacheControl), Ext: wholeBlock(raw, "source", "content")}
	return &llm.Media{Meta: meta, Kind: llm.File, MIME: "text/plain", Title: w.Title, Text: innerText(raw)}
}

// decodeMedia decodes an image or a document. A block whose source has no neutral
// form is kept in Ext; isWhole reports it.
func decodeMedia(meta llm.Meta, kind string, w *Block, raw wire.Raw) (*llm.Media, error) {
	m := &llm.Media{Meta: meta, Kind: llm.File, Title: w.Title.Value().String(), Context: w.Context.Value().String()}
	if kind == "image" {
		m.Kind = llm.Image
	}
	if len(w.Citations) > 0 {
		kept.Keep(&m.Ext, "citations", w.Citations)
	}
	s, ok := w.Source.Get()
	if !ok {
		return nil, errors.New(kind + " needs a source")
	}
	m.MIME = s.MediaType.Value()
	switch s.Type.Value() {
	case "base64":
		m.Data = codec.StandardBase64(s.Data.Value().String())
	case "url":
		m.URL = s.URL.Value().String()
	case "file":
		m.FileID = s.FileID.Value()
		m.Ext.Protocol = own // says whose file id it is
	case "text":
		m.Text = s.Data.Value().String()
	default:
		m.MIME, m.Text = "text/plain", innerText(raw)
		m.Ext = wholeBlock(raw, "source")
		return m, nil
	}
	if len(s.Extra.All()) > 0 {
		m.Ext = wholeBlock(raw)
	}
	return m, nil
}

// wholeBlock keeps all members of a block, its type included. The named members
// are marked as decoded.
func wholeBlock(raw wire.Raw, read ...string) llm.Ext {
	var o wire.Object
	_ = o.UnmarshalJSON(raw) // cannot fail: it was decoded before
	ext := llm.Ext{Protocol: own}
	for _, m := range o {
		if slices.Contains(read, m.Name) || slices.Contains([]string{"type", "title", "context", "cache_control"}, m.Name) {
			kept.Mark(&ext, m.Name, m.Value)
		} else {
			kept.Keep(&ext, m.Name, m.Value)
		}
	}
	return ext
}

// isWhole reports whether an Ext holds a complete block of this protocol.
func isWhole(ext llm.Ext) bool {
	return ext.Protocol == own && ext.Get(codec.MarkPrefix+"type") != ""
}

// mediaIn encodes media where its role may send it. Assistant turns may not hold
// media, except documents in older versions; it moves to the next user message.
// VER-09
func (e *requestEncoder) mediaIn(at string, role llm.Role, m *llm.Media, w Block) []wire.Raw {
	raw := e.media(at, m, w)
	switch {
	case raw == nil:
		return nil
	case blockcodec.IsSystem(role):
		e.Report.Refuse(at, "media.in_system", "system text cannot hold anything but text")
		return nil
	case role != llm.Assistant, m.Kind == llm.File && e.version.AssistantDocument && e.Home:
		return []wire.Raw{raw}
	}
	e.Report.Approximate(at, "media.moved", "what the assistant showed is in the next message of the user")
	e.Moved = append(e.Moved, textBlock("[shown by the assistant in its turn before:]"), raw)
	return nil
}

func (e *requestEncoder) media(at string, m *llm.Media, w Block) wire.Raw {
	if isWhole(m.Ext) {
		return e.wholeMedia(at, m)
	}
	w.Title, w.Context = wire.NonZero(wire.NewText(m.Title)), wire.NonZero(wire.NewText(m.Context))
	switch m.Kind {
	case llm.Image:
		w.Type = wire.Some("image")
		e.DropIf(m.Detail != "" && m.Detail != "auto", at+".detail", "media.detail")
	case llm.File:
		w.Type = wire.Some("document")
		if m.Title == "" {
			w.Title = wire.NonZero(wire.NewText(m.Name))
		}
	default:
		e.Report.Refuse(at, "media.unsupported", "the vendor reads no "+string(m.Kind)) // CRQ-40
		return nil
	}
	s, ok := e.source(at, m)
	if !ok {
		return nil
	}
	w.Source = wire.Some(s)
	if raw := e.Marshal(at, &w); raw != nil {
		return raw[0]
	}
	return nil
}

func (e *requestEncoder) source(at string, m *llm.Media) (Source, bool) {
	switch {
	case m.Data != "":
		return e.dataSource(at, m)
	case m.URL != "":
		if !strings.HasPrefix(m.URL, "https://") && !strings.HasPrefix(m.URL, "http://") {
			e.Report.Refuse(at, "media.url", "the vendor fetches http addresses only")
			return Source{}, false
		}
		return Source{Type: wire.Some("url"), URL: wire.Some(wire.NewText(m.URL))}, true
	case m.FileID != "":
		if m.Ext.Protocol != own { // CRQ-39
			e.Report.Refuse(at, "media.foreign_file", "file "+m.FileID+" is another vendor's; send its content")
			return Source{}, false
		}
		return Source{Type: wire.Some("file"), FileID: wire.Some(m.FileID)}, true
	}
	if !e.Home && (m.Text == "" || m.Kind == llm.Image) {
		e.Report.Refuse(at, "media.empty", "there is nothing in it; send its content")
		return Source{}, false
	}
	return Source{Type: wire.Some("text"), MediaType: wire.Some("text/plain"), Data: wire.Some(wire.NewText(m.Text))}, true
}

func (e *requestEncoder) dataSource(at string, m *llm.Media) (Source, bool) {
	mime := strings.ToLower(m.MIME)
	switch {
	case m.Kind == llm.Image:
		mime = e.imageType(at, mime, m)
		if !slices.Contains(imageTypes, mime) {
			e.Report.Refuse(at, "image.type", "the vendor reads JPEG, PNG, GIF and WebP, not "+m.MIME)
			return Source{}, false
		}
	case mime == "application/pdf", mime == "" && isPDF(m.Data):
		mime = "application/pdf"
	case strings.HasPrefix(mime, "text/"):
		text, err := base64.StdEncoding.DecodeString(m.Data)
		if err != nil {
			e.Report.Refuse(at, "media.data", "the data is not base64")
			return Source{}, false
		}
		return Source{Type: wire.Some("text"), MediaType: wire.Some("text/plain"), Data: wire.Some(wire.NewText(string(text)))}, true
	default:
		e.Report.Refuse(at, "file.type", "the vendor reads PDF and plain text, not "+m.MIME)
		return Source{}, false
	}
	return Source{Type: wire.Some("base64"), MediaType: wire.Some(mime), Data: wire.Some(wire.NewText(m.Data))}, true
}

// imageType returns an image's media type, detected from its bytes. The API
// rejects a wrong type. CRQ-36
func (e *requestEncoder) imageType(at, mime string, m *llm.Media) string {
	if mime == "image/jpg" {
		mime = "image/jpeg"
	}
	if e.Home {
		return mime
	}
	head, _ := base64.StdEncoding.DecodeString(m.Data[:min(len(m.Data)/4*4, 64)])
	seen := http.DetectContentType(head)
	if seen != mime && slices.Contains(imageTypes, seen) {
		e.Report.Approximate(at, "image.type_corrected", "labelled "+m.MIME+", but it is "+seen)
		return seen
	}
	return mime
}

// wholeMedia writes a block that was kept unchanged.
func (e *requestEncoder) wholeMedia(at string, m *llm.Media) wire.Raw {
	o := blockcodec.Object(m.Ext.Members)
	content, ok := o.Get("content")
	if ok && !e.version.UserTextCitations {
		if clean, changed := withoutCitations(content); changed {
			e.Report.Drop(at+".citations", "citations.user_text", "version "+e.version.Name+" refuses citations on the user's text")
			o = o.With("content", clean)
		}
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return nil
	}
	return raw
}

// withoutCitations removes the citations from a list of text blocks. VER-11
func withoutCitations(list wire.Raw) (wire.Raw, bool) {
	items, changed := arrayItems(list), false
	for i, item := range items {
		var o wire.Object
		if item.Kind() != '{' || o.UnmarshalJSON(item) != nil {
			continue
		}
		cited, _ := o.Get("citations")
		if len(arrayItems(cited)) == 0 {
			continue
		}
		o = slices.DeleteFunc(o, func(m wire.Member) bool { return m.Name == "citations" })
		if raw, err := o.MarshalJSON(); err == nil {
			items[i], changed = raw, true
		}
	}
	if !changed {
		return list, false
	}
	return array(items), true
}

// isPDF reports whether base64 data begins with a PDF header.
func isPDF(data string) bool {
	head := make([]byte, 6)
	n, _ := base64.StdEncoding.Decode(head, []byte(data[:min(len(data), 8)]))
	return strings.HasPrefix(string(head[:n]), "%PDF-")
}
