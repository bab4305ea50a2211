package converse

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// format is a format of media, as the protocol and as MIME name it.
type format struct{ name, mime string }

// formats lists the formats of each kind of media. The first MIME type of a format is the
// one that is decoded.
var formats = map[llm.MediaKind][]format{
	llm.Image: {{"png", "image/png"}, {"jpeg", "image/jpeg"}, {"jpeg", "image/jpg"}, {"gif", "image/gif"}, {"webp", "image/webp"}},
	llm.File: {
		{"pdf", "application/pdf"}, {"csv", "text/csv"}, {"html", "text/html"}, {"md", "text/markdown"}, {"txt", "text/plain"},
		{"doc", "application/msword"}, {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
		{"xls", "application/vnd.ms-excel"}, {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
	},
	llm.Video: {
		{"mp4", "video/mp4"}, {"mkv", "video/x-matroska"}, {"mov", "video/quicktime"}, {"webm", "video/webm"}, {"flv", "video/x-flv"},
		{"mpeg", "video/mpeg"}, {"mpg", "video/mpg"}, {"wmv", "video/x-ms-wmv"}, {"three_gp", "video/3gpp"},
	},
	llm.Audio: {
		{"mp3", "audio/mpeg"}, {"mp3", "audio/mp3"}, {"wav", "audio/wav"}, {"wav", "audio/x-wav"}, {"wav", "audio/wave"}, {"opus", "audio/opus"},
		{"aac", "audio/aac"}, {"flac", "audio/flac"}, {"mp4", "audio/mp4"}, {"ogg", "audio/ogg"}, {"m4a", "audio/m4a"}, {"pcm", "audio/pcm"},
		{"webm", "audio/webm"},
	},
}

// mimeOf returns the MIME type of a format, or "".
func mimeOf(kind llm.MediaKind, name string) string {
	for _, f := range formats[kind] {
		if f.name == name {
			return f.mime
		}
	}
	return ""
}

// formatOf returns the format of a MIME type, or "".
func formatOf(kind llm.MediaKind, mime string) string {
	for _, f := range formats[kind] {
		if f.mime == mime {
			return f.name
		}
	}
	return ""
}

// formatMark notes a format without a MIME type of its own.
const formatMark = "format"

// decodeMedia decodes media. A block whose source has no neutral form is kept as a whole.
func decodeMedia(kind llm.MediaKind, w Media, member string, raw wire.Raw) llm.Block {
	s := w.Source.Value()
	m := &llm.Media{Meta: llm.Meta{Ext: kept.Ext(w.Extra)}, Kind: kind, MIME: mimeOf(kind, w.Format.Value()), Name: w.Name.Value(), Context: w.Context.Value().String()}
	if f, ok := w.Format.Get(); ok && m.MIME == "" {
		kept.Mark(&m.Ext, formatMark, blockcodec.Quoted(f))
	}
	if len(w.Citations) > 0 {
		kept.Keep(&m.Ext, "citations", w.Citations)
	}
	at, here := s.S3Location.Get()
	switch {
	case len(s.Extra.All()) > 0 || len(at.Extra.All()) > 0:
		return &llm.Opaque{Protocol: own, Type: member, Raw: llm.Raw(raw)}
	case s.Bytes.IsSet():
		m.Data = codec.StandardBase64(s.Bytes.Value().String())
	case here:
		m.URL = at.URI.Value().String()
	case s.Text.IsSet():
		m.Text = s.Text.Value().String()
	default:
		return &llm.Opaque{Protocol: own, Type: member, Raw: llm.Raw(raw)}
	}
	return m
}

// mediaMembers maps kinds of media to the members of a block.
var mediaMembers = map[llm.MediaKind]func(*Block) *wire.Opt[Media]{
	llm.Image: func(b *Block) *wire.Opt[Media] { return &b.Image },
	llm.File:  func(b *Block) *wire.Opt[Media] { return &b.Document },
	llm.Video: func(b *Block) *wire.Opt[Media] { return &b.Video },
	llm.Audio: func(b *Block) *wire.Opt[Media] { return &b.Audio },
}

// mediaIn encodes media in a turn of a role. Models take none in system text, and only some
// take their own: those of the assistant move to the next message of the user.
func (e *requestEncoder) mediaIn(at string, role llm.Role, m *llm.Media) []wire.Raw {
	if blockcodec.IsSystem(role) {
		e.Report.Refuse(at, "media.in_system", "system text cannot hold anything but text")
		return nil
	}
	w, ok := e.media(at, m)
	if !ok {
		return nil
	}
	var b Block
	*mediaMembers[m.Kind](&b) = wire.Some(w)
	raws := e.Marshal(at, &b)
	if role != llm.Assistant || e.Home || raws == nil {
		return raws
	}
	e.Report.Approximate(at, "media.moved", "what the assistant showed is in the next message of the user")
	e.Moved = append(append(e.Moved, textBlock("[shown by the assistant in its turn before:]")), raws...)
	return nil
}

func (e *requestEncoder) media(at string, m *llm.Media) (Media, bool) {
	w := Media{Extra: kept.Extra(withoutMarks(blockcodec.Without(m.Ext, "citations")))}
	if m.Ext.Protocol == own {
		w.Citations = wire.Raw(m.Ext.Get("citations"))
	}
	if _, ok := mediaMembers[m.Kind]; !ok {
		e.Report.Refuse(at, "media.unsupported", "the vendor reads no "+string(m.Kind))
		return w, false
	}
	e.DropIf(m.Detail != "" && m.Detail != "auto", at+".detail", "media.detail")
	if m.Kind == llm.File {
		w.Name = wire.Some(e.documentName(at, m))
		w.Context = wire.NonZero(wire.NewText(m.Context))
	}
	if kept := m.Ext.Get(codec.MarkPrefix + formatMark); kept != "" && m.Ext.Protocol == own {
		w.Format = wire.Some(wire.Unquote(wire.Raw(kept)))
	}
	source, mime, ok := e.source(at, m)
	if !ok {
		return w, false
	}
	w.Source = wire.Some(source)
	if name := formatOf(m.Kind, mime); name != "" {
		w.Format = wire.Some(name)
	}
	switch {
	case w.Format.IsSet() || m.Kind == llm.File && e.Home: // a document may lack it
		return w, true
	case m.Kind == llm.File && strings.HasPrefix(mime, "text/"):
		w.Format = wire.Some("txt")
		return w, true
	case m.Kind == llm.Image:
		e.Report.Refuse(at, "image.type", "the vendor reads JPEG, PNG, GIF and WebP, not "+m.MIME)
	default:
		e.Report.Refuse(at, "file.type", "the vendor reads no "+string(m.Kind)+" of the type "+m.MIME)
	}
	return w, false
}

// source returns the source of media and their MIME type.
func (e *requestEncoder) source(at string, m *llm.Media) (Source, string, bool) {
	mime := strings.ToLower(m.MIME)
	switch {
	case m.Data != "":
		if m.Kind == llm.Image && !e.Home {
			mime = e.imageType(at, mime, m)
		} else if !e.Home {
			mime = strings.ToLower(codec.WithMIME(m, at, e.Report).MIME)
		}
		if _, err := base64.StdEncoding.DecodeString(m.Data); err != nil && m.Kind == llm.File && !e.Home {
			e.Report.Refuse(at, "media.data", "the data is not base64")
			return Source{}, "", false
		}
		return Source{Bytes: wire.Some(wire.NewText(m.Data))}, mime, true
	case strings.HasPrefix(m.URL, "s3://"):
		return Source{S3Location: wire.Some(S3Location{URI: wire.Some(wire.NewText(m.URL))})}, mime, true
	case m.URL != "":
		e.Report.Refuse(at, "media.url", "the vendor reads its own buckets only, as s3://; send the data")
	case m.FileID != "":
		e.Report.Refuse(at, "media.foreign_file", "file "+m.FileID+" is another vendor's; send its content")
	case m.Text != "" && m.Kind == llm.File:
		if e.Home {
			return Source{Text: wire.Some(wire.NewText(m.Text))}, mime, true
		}
		e.Report.Approximate(at, "document.as_file", "a text is sent as a text file")
		return Source{Bytes: wire.Some(wire.NewText(base64.StdEncoding.EncodeToString([]byte(m.Text))))}, cmp.Or(mime, "text/plain"), true
	default:
		e.Report.Refuse(at, "media.empty", "there is nothing in it; send its content")
	}
	return Source{}, "", false
}

// imageType returns an image's MIME type, detected from its bytes. Models reject a wrong
// type.
func (e *requestEncoder) imageType(at, mime string, m *llm.Media) string {
	head, _ := base64.StdEncoding.DecodeString(m.Data[:min(len(m.Data)/4*4, 64)])
	seen := http.DetectContentType(head)
	switch {
	case formatOf(llm.Image, seen) == "" || formatOf(llm.Image, seen) == formatOf(llm.Image, mime):
		return mime
	case mime == "":
		e.Report.Approximate(at, "media.type_guessed", "nothing says what it is; sent as "+seen)
	default:
		e.Report.Approximate(at, "image.type_corrected", "labelled "+m.MIME+", but it is "+seen)
	}
	return seen
}

// maxDocumentName is the maximum length of a document's name, and defaultName the name of
// one that has none.
const (
	maxDocumentName = 200
	defaultName     = "document"
)

// documentName returns a document's name. The API requires one that no other document has,
// made of letters, digits, single spaces, hyphens and brackets.
func (e *requestEncoder) documentName(at string, m *llm.Media) string {
	name := cmp.Or(m.Title, m.Name)
	if e.Home {
		return name
	}
	safe := strings.Join(strings.Fields(strings.Map(nameRune, name)), " ")
	safe = strings.TrimSpace(safe[:min(len(safe), maxDocumentName-8)])
	sent := e.documents.Add(func(n int) string {
		if n == 1 {
			return cmp.Or(safe, defaultName)
		}
		return cmp.Or(safe, defaultName) + " " + strconv.Itoa(n)
	})
	if name != "" && sent != name {
		e.Report.Approximate(at+".name", "document.name", "sent as "+strconv.Quote(sent))
	}
	return sent
}

// nameRune returns a rune that a document's name may contain, or a hyphen.
func nameRune(r rune) rune {
	if r < 0x80 && (llm.WordByte(byte(r)) && r != '_' || slices.Contains([]rune(" ()[]"), r)) {
		return r
	}
	return '-'
}
