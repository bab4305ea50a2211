package openairesponses

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"path"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// These tables map audio formats to MIME types and back.
var (
	audioMIME   = map[string]string{"wav": "audio/wav", "mp3": "audio/mpeg"}
	audioFormat = map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
)

func decodeImage(p *Part, meta llm.Meta) *llm.Media {
	m := &llm.Media{Meta: meta, Kind: llm.Image, FileID: p.FileID.Value(), Detail: p.Detail.Value()}
	link := p.ImageURL.Value().String()
	var ok bool
	if m.MIME, m.Data, ok = parseDataURL(link); !ok {
		m.URL = link
	} else if !strings.HasPrefix(m.MIME, "image/") && m.MIME != "" { // a PDF sent as an image, CRQ-38
		m.Kind = llm.File
	}
	if p.ImageURL.IsSet() && (imageURL(m) != link || p.ImageURL.Value().Object.IsSet() || m.Kind != llm.Image) {
		raw, _ := json.Marshal(p.ImageURL.Value().value()) // cannot fail: it was decoded from JSON
		keepSpelling(m, "image_url", llm.Raw(raw))
	}
	return m
}

// String returns the URL in either form.
func (u ImageURL) String() string {
	if u.URL.IsSet() {
		return u.URL.Value()
	}
	var s string
	if raw, ok := u.Object.Value().Get("url"); ok {
		_ = json.Unmarshal(raw, &s, wire.Lenient) // not a string, so no URL
	}
	return s
}

func (u ImageURL) value() any {
	if u.URL.IsSet() {
		return u.URL.Value()
	}
	return u.Object.Value()
}

func decodeFile(p *Part, meta llm.Meta) *llm.Media {
	m := &llm.Media{Meta: meta, Kind: llm.File, FileID: p.FileID.Value(), URL: p.FileURL.Value(),
		Name: p.Filename.Value(), Detail: p.Detail.Value()}
	given, ok := p.FileData.Get()
	if !ok {
		return m
	}
	var isURL bool
	if m.MIME, m.Data, isURL = parseDataURL(given); !isURL { // bare base64
		m.Data = codec.StandardBase64(given)
	}
	m.MIME = mimeOfFile(m.MIME, m.Name)
	if dataURL(m.MIME, m.Data) != given {
		keepSpelling(m, "file_data", quote(given))
	}
	return m
}

// fileMIME maps file extensions to the MIME types that OpenAI's models read.
var fileMIME = map[string]string{
	".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/markdown", ".csv": "text/csv",
	".json": "application/json", ".html": "text/html", ".xml": "application/xml",
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
}

// mimeOfFile returns a file's MIME type: as given, otherwise by its name,
// otherwise PDF.
func mimeOfFile(given, name string) string {
	if given != "" && given != "application/octet-stream" {
		return given
	}
	return cmp.Or(fileMIME[strings.ToLower(path.Ext(name))], cmp.Or(given, "application/pdf"))
}

func decodeAudio(p *Part, meta llm.Meta) *llm.Media {
	a := p.InputAudio.Value()
	m := &llm.Media{Meta: meta, Kind: llm.Audio}
	var isURL bool
	if m.MIME, m.Data, isURL = parseDataURL(a.Data.Value()); !isURL {
		m.Data = codec.StandardBase64(a.Data.Value())
	}
	if known, ok := audioMIME[a.Format.Value()]; ok {
		m.MIME = known
	} else if m.MIME == "" {
		m.MIME = "audio/" + a.Format.Value()
	}
	if m.Data != a.Data.Value() || len(a.Extra.All()) > 0 {
		o := object{}
		o.str("data", a.Data.Value())
		o.str("format", a.Format.Value())
		o.ext(extOf(a.Extra))
		keepSpelling(m, "input_audio", o.end())
	}
	return m
}

// keepSpelling keeps a member that the encoder would write differently.
func keepSpelling(m *llm.Media, name string, as llm.Raw) {
	m.Ext.Members = append(m.Ext.Members, llm.Member{Name: spelled(name), Value: as})
}

// parseDataURL parses a data URL with any parameters and in any case.
func parseDataURL(link string) (mimeType, data string, ok bool) {
	if len(link) < 5 || !strings.EqualFold(link[:5], "data:") {
		return "", "", false
	}
	head, data, ok := strings.Cut(link[5:], ",")
	if !ok {
		return "", "", false
	}
	fields := strings.Split(strings.ToLower(head), ";")
	mimeType = strings.TrimSpace(fields[0])
	if mimeType == "image/jpg" {
		mimeType = "image/jpeg"
	}
	if strings.TrimSpace(fields[len(fields)-1]) == "base64" {
		return mimeType, codec.StandardBase64(data), true
	}
	plain, err := url.PathUnescape(data)
	if err != nil {
		plain = data
	}
	return mimeType, base64.StdEncoding.EncodeToString([]byte(plain)), true
}

func dataURL(mimeType, data string) string { return "data:" + mimeType + ";base64," + data }

func imageURL(m *llm.Media) string {
	if m.URL != "" {
		return m.URL
	}
	return dataURL(m.MIME, m.Data)
}

// media encodes media into a part. It reports what cannot be encoded.
func (e *requestEncoder) media(o *object, m *llm.Media, path string) bool {
	if m.Data == "" && m.URL == "" && m.FileID == "" && m.Text == "" && !isOwn(m.Ext) {
		e.report.Refuse(path, "media.empty", "there is nothing in it")
		return false
	}
	if m.FileID != "" && m.Ext.Protocol != own && m.Ext.Protocol != string(protocol.OpenAIChat) {
		e.report.Refuse(path, "media.foreign_file", "the file was uploaded to another vendor; send it inline")
		return false
	}
	wasImage := isOwn(m.Ext) && m.Ext.Get(spelled("image_url")) != ""
	switch {
	case m.Kind == llm.Image, wasImage:
		if !isOwn(m.Ext) {
			m = codec.WithMIME(m, path, e.report)
		}
		writeImage(o, m)
	case m.Kind == llm.File:
		e.file(o, m, path)
	case m.Kind == llm.Audio:
		return e.audio(o, m, path)
	default:
		e.report.Refuse(path, "media.unsupported", "the Responses API takes no "+string(m.Kind))
		return false
	}
	return true
}

func writeImage(o *object, m *llm.Media) {
	o.str("type", "input_image")
	detail := m.Detail
	if isOwn(m.Ext) {
		o.raw("image_url", m.Ext.Get(spelled("image_url")))
	} else if detail == "" {
		detail = "auto" // the member is required
	}
	o.opt("detail", detail)
	if m.FileID != "" {
		o.str("file_id", m.FileID)
		return
	}
	o.str("image_url", imageURL(m))
}

func (e *requestEncoder) file(o *object, m *llm.Media, path string) {
	o.str("type", "input_file")
	name := m.Name
	if name == "" && !isOwn(m.Ext) {
		name = m.Title
	}
	switch {
	case m.FileID != "":
		o.str("file_id", m.FileID)
	case m.URL != "":
		o.str("file_url", m.URL)
	case m.Text != "":
		e.report.Approximate(path, "document.as_file", "the document's text is sent as a text file")
		o.str("file_data", dataURL("text/plain", base64.StdEncoding.EncodeToString([]byte(m.Text))))
	default:
		if isOwn(m.Ext) {
			o.raw("file_data", m.Ext.Get(spelled("file_data")))
		}
		o.str("file_data", dataURL(m.MIME, m.Data))
	}
	if name == "" && !isOwn(m.Ext) && m.FileID == "" && m.URL == "" {
		name = "document" + extensionOf(m)
	}
	o.opt("filename", name)
	o.opt("detail", m.Detail)
	if m.Context != "" {
		e.report.Drop(path+".context", "document.context", "a document has no context in the Responses API")
	}
}

func extensionOf(m *llm.Media) string {
	switch {
	case m.Text != "", m.MIME == "text/plain":
		return ".txt"
	case m.MIME == "application/pdf", m.MIME == "":
		return ".pdf"
	}
	_, sub, _ := strings.Cut(m.MIME, "/")
	return "." + sub
}

func (e *requestEncoder) audio(o *object, m *llm.Media, path string) bool {
	format, ok := audioFormat[m.MIME]
	if !ok && isOwn(m.Ext) {
		_, format, ok = strings.Cut(m.MIME, "/")
	}
	if !ok || m.Data == "" {
		e.report.Refuse(path, "media.unsupported", "the Responses API takes audio inline, as wav or mp3")
		return false
	}
	o.str("type", "input_audio")
	if isOwn(m.Ext) {
		o.raw("input_audio", m.Ext.Get(spelled("input_audio")))
	}
	in := object{}
	in.str("data", m.Data)
	in.str("format", format)
	o.raw("input_audio", in.end())
	return true
}
