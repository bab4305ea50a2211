package openaichat

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// decodeMedia decodes an image, audio or file part.
func decodeMedia(meta llm.Meta, p Part) *llm.Media {
	m := &llm.Media{Meta: meta}
	switch p.Type.Value() {
	case PartInputAudio:
		a := p.InputAudio.Value()
		m.Kind, m.MIME, m.Data = llm.Audio, "audio/"+a.Format.Value(), a.Data.Value().String()
		if _, data, ok := ParseDataURL(m.Data); ok { // outside the specification, but some clients send it
			m.Data = data
		}
	case PartFile:
		f := p.File.Value()
		m.Kind, m.FileID, m.Name = llm.File, f.FileID.Value(), f.Filename.Value()
		setData(m, f.FileData.Value().String())
	default:
		i := p.ImageURL.Value()
		o := i.Object.Value()
		m.Kind, m.Detail = llm.Image, o.Detail.Value()
		setData(m, i.URL.Or(o.URL.Value()).String())
		if m.MIME == "application/pdf" { // some clients send documents as images
			m.Kind = llm.File
		}
	}
	return m
}

// keepOriginal keeps the original JSON of a part that encodes differently from its
// neutral form: a bare URL, a media type in capitals, unknown members.
func keepOriginal(m *llm.Media, p Part) {
	e := requestEncoder{in: &llm.Request{Ext: llm.Ext{Protocol: own}}, report: &llm.Report{}}
	was := rawOf(p)
	if again, ok := e.part(m, ""); !ok || rawOf(again) != was {
		m.Ext = llm.Ext{Protocol: own, Members: append(m.Ext.Members, llm.Member{Name: partMark, Value: was})}
	}
}

func imageAddress(m *llm.Media) string {
	if m.Data != "" {
		return "data:" + m.MIME + ";base64," + m.Data
	}
	return m.URL
}

func fileData(m *llm.Media) string {
	if m.Data != "" && m.MIME != "" {
		return "data:" + m.MIME + ";base64," + m.Data
	}
	return m.Data
}

// setData decodes an image URL: a data URL, another URL, or bare base64.
func setData(m *llm.Media, address string) {
	mime, data, ok := ParseDataURL(address)
	switch {
	case ok:
		m.MIME, m.Data = mime, data
	case strings.Contains(address, "://"):
		m.URL = address
	default:
		m.Data = address
	}
}

// ParseDataURL returns the media type and the base64 data of a data URL. It drops
// parameters and corrects image/jpg to image/jpeg.
func ParseDataURL(s string) (mime, data string, ok bool) {
	if len(s) < len("data:") || !strings.EqualFold(s[:len("data:")], "data:") {
		return "", "", false
	}
	head, data, ok := strings.Cut(s[len("data:"):], ",")
	if !ok || !strings.HasSuffix(strings.ToLower(head), ";base64") {
		return "", "", false
	}
	mime, _, _ = strings.Cut(strings.ToLower(head), ";")
	if mime == "image/jpg" {
		mime = "image/jpeg"
	}
	return mime, data, true
}

// media encodes an image, audio or file as a part.
func (e *requestEncoder) media(m *llm.Media, p Part, path string) (Part, bool) {
	if p, ok := originalPart(m); ok {
		return p, true
	}
	p.Extra = wire.Extra{}
	switch {
	case m.Data == "" && m.URL == "" && m.FileID == "" && m.Text == "":
		e.report.Refuse(path, "media.empty", "there is nothing in it")
	case m.FileID != "" && e.in.Ext.Protocol != own:
		e.report.Refuse(path, "media.foreign_file", "a file of another vendor cannot be reached from here; send its content")
	case m.Kind == llm.Image && m.FileID == "":
		m = codec.WithMIME(m, path, e.report)
		p.Type = wire.Some(PartImageURL)
		p.ImageURL = wire.Some(Image{Object: wire.Some(ImageURL{URL: wire.Some(wire.NewText(imageAddress(m))), Detail: wire.NonZero(m.Detail)})})
		return p, true
	case m.Kind == llm.Audio && m.Data != "" && audioFormats[m.MIME] != "":
		p.Type = wire.Some(PartInputAudio)
		p.InputAudio = wire.Some(InputAudio{Data: wire.Some(wire.NewText(m.Data)), Format: wire.Some(audioFormats[m.MIME])})
		return p, true
	case m.Kind == llm.File && m.Text != "":
		e.report.Approximate(path, "document.as_text", "a document is sent as text")
		p.Type, p.Text = wire.Some(PartText), wire.Some(wire.NewText(documentText(m)))
		return p, true
	case m.Kind == llm.File && (m.Data != "" || m.FileID != ""):
		if m.Context != "" {
			e.report.Drop(path+".context", "document.context", "a file has no context in chat completions")
		}
		p.Type, p.File = wire.Some(PartFile), wire.Some(file(m))
		return p, true
	case m.URL != "":
		e.report.Refuse(path, "media.url", "chat completions take only images by address; send the content")
	default:
		e.report.Refuse(path, "media.unsupported", "chat completions do not take "+string(m.Kind)+" "+m.MIME)
	}
	return p, false
}

// audioFormats maps media types to the audio formats that the API accepts.
var audioFormats = map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}

// originalPart returns the original part of a media block that came from this
// protocol. Its server knows formats that this codec does not.
func originalPart(m *llm.Media) (Part, bool) {
	var p Part
	if m.Ext.Protocol != own || m.Ext.Get(partMark) == "" || wire.Unmarshal([]byte(m.Ext.Get(partMark)), &p) != nil {
		return p, false
	}
	return p, true
}

func file(m *llm.Media) File {
	f := File{FileID: wire.NonZero(m.FileID), Filename: wire.NonZero(m.Name)}
	if m.Data == "" {
		return f
	}
	f.FileData = wire.Some(wire.NewText(fileData(m)))
	switch {
	case m.Name != "":
	case m.Title != "":
		f.Filename = wire.Some(m.Title)
	case m.MIME == "application/pdf":
		f.Filename = wire.Some("document.pdf")
	}
	return f
}

// documentText returns a document's text, preceded by its title and context.
func documentText(m *llm.Media) string {
	var b strings.Builder
	for _, s := range []string{m.Title, m.Context} {
		if s != "" {
			b.WriteString(s + "\n")
		}
	}
	return b.String() + m.Text
}
