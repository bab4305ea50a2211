package gemini

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func readBlob(b *Blob, meta llm.Meta) *llm.Media {
	keep(&meta.Ext, atBlob, b.Extra.All())
	mime := b.MIMEType.Value()
	return &llm.Media{Meta: meta, Kind: mediaKind(mime), MIME: mime, Data: codec.StandardBase64(b.Data.Value()), Name: displayName(b.Extra)}
}

func readFile(f *FileData, meta llm.Meta) *llm.Media {
	keep(&meta.Ext, atFile, f.Extra.All())
	mime, uri := f.MIMEType.Value(), f.FileURI.Value()
	m := &llm.Media{Meta: meta, Kind: mediaKind(mime), MIME: mime, Name: displayName(f.Extra)}
	if u, err := url.Parse(uri); err == nil && (u.Scheme == "http" || u.Scheme == "https") && !vendorURI(uri) {
		m.URL = uri
	} else {
		m.FileID = uri
	}
	return m
}

// vendorURI reports whether a URI is meaningful only to Google.
func vendorURI(uri string) bool {
	return strings.HasPrefix(uri, "gs://") || strings.HasPrefix(uri, "files/") ||
		strings.HasPrefix(uri, "https://generativelanguage.googleapis.com/")
}

func displayName(e wire.Extra) string {
	raw, ok := e.Get("displayName")
	if !ok {
		raw, _ = e.Get("display_name") // the name is kept as it was sent
	}
	name, err := unquote(raw)
	if err != nil {
		return ""
	}
	return name
}

func mediaKind(mime string) llm.MediaKind {
	family, _, _ := strings.Cut(mime, "/")
	switch kind := llm.MediaKind(family); kind {
	case llm.Image, llm.Audio, llm.Video:
		return kind
	default:
		return llm.File
	}
}

// media encodes media into the part, or reports that it cannot.
func (e *requestEncoder) media(b *llm.Media, p *Part, path string) bool {
	mine := b.Ext.Protocol == own
	if !mine {
		e.mediaLosses(b, path)
	}
	switch uri := b.URL + b.FileID; {
	case b.Data != "" || b.Text != "":
		p.InlineData = wire.Some(e.blob(b, path))
	case uri == "":
		e.report.Refuse(path, "media.empty", "there is no data in it")
		return false
	case mine, vendorURI(uri), youtube(uri):
		f := FileData{FileURI: wire.Some(uri), Extra: extra(b.Ext, atFile)}
		if b.MIME != "" {
			f.MIMEType = wire.Some(b.MIME)
		}
		p.FileData = wire.Some(f)
	case b.FileID != "":
		e.report.Refuse(path, "media.foreign_file", "the file is another vendor's; send its data")
		return false
	default:
		e.report.Refuse(path, "media.url", "the API does not fetch addresses; send the data itself")
		return false
	}
	return true
}

func youtube(uri string) bool {
	return strings.HasPrefix(uri, "https://www.youtube.com/watch") || strings.HasPrefix(uri, "https://youtu.be/")
}

func (e *requestEncoder) mediaLosses(b *llm.Media, path string) {
	if b.Name+b.Title+b.Context != "" {
		e.report.Drop(path+".name", "media.name", "a file has no name, title or context here")
	}
	if b.Detail != "" && b.Detail != "auto" {
		e.report.Drop(path+".detail", "media.detail", "image detail is a setting of the whole request")
	}
}

// blob returns inline data, or a text as inline data.
func (e *requestEncoder) blob(b *llm.Media, path string) Blob {
	mime, data := b.MIME, b.Data
	if b.Data == "" {
		e.report.Approximate(path, "document.as_file", "a document in text is sent as a file")
		mime, data = mimeText, base64.StdEncoding.EncodeToString([]byte(b.Text))
	}
	switch mime {
	case "":
		mime = codec.DetectMIME(data)
		e.report.Approximate(path, "media.type_guessed", "nothing says what it is; sent as "+mime)
	case "image/jpg":
		mime = "image/jpeg"
	}
	return Blob{MIMEType: wire.Some(mime), Data: wire.Some(data), Extra: extra(b.Ext, atBlob)}
}
