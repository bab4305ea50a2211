package completions

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// NewStreamEncoder returns an encoder for one stream of chunks.
func (Codec) NewStreamEncoder(req *llm.Request) protocol.StreamEncoder {
	return &streamEncoder{usage: req != nil && req.IncludeUsage, texts: map[place]bool{}, ended: map[int]bool{}}
}

type streamEncoder struct {
	usage  bool           // the client requested usage
	head   []byte         // the beginning of every chunk
	texts  map[place]bool // the blocks whose text is part of the completion
	ended  map[int]bool   // the choices whose finish reason was written
	counts *llm.Usage
	over   bool
}

// place identifies a block.
type place struct{ choice, index int }

// Encode appends the chunk of an event. Events without text have none.
func (s *streamEncoder) Encode(e llm.Event, to []byte) []byte {
	if s.over {
		return to
	}
	switch e := e.(type) {
	case llm.Start:
		s.head, s.counts = appendHead([]byte("data: "), e.ID, e.Created, e.Model), e.Usage
	case llm.BlockStart:
		switch e.Block.(type) {
		case *llm.Text, *llm.Refusal:
			s.texts[place{e.Choice, e.Index}] = true
		}
	case llm.Delta:
		if e.Text != "" && s.texts[place{e.Choice, e.Index}] && !s.ended[e.Choice] {
			return s.chunk(to, e.Choice, e.Text, "")
		}
	case llm.UsageUpdate:
		s.counts = &e.Usage
	case llm.ChoiceEnd:
		if !s.ended[e.Choice] {
			s.ended[e.Choice] = true
			return s.chunk(to, e.Choice, "", finishOf(e.Stop))
		}
	case llm.End:
		s.over = true
		return s.close(to)
	case llm.Failure:
		s.over = true
		return append(to, Codec{}.EncodeStreamError(e.Err)...)
	case llm.Ping:
		return sse.AppendComment(to, "keep-alive")
	}
	return to
}

func (s *streamEncoder) chunk(to []byte, choice int, text, finish string) []byte {
	return append(appendChoice(append(to, s.head...), choice, text, finish), "]}\n\n"...)
}

// close appends the usage, if the client requested it, and [DONE].
func (s *streamEncoder) close(to []byte) []byte {
	if s.usage && s.counts != nil {
		to = appendUsage(append(append(to, s.head...), ']'), s.counts)
		to = append(to, "}\n\n"...)
	}
	return append(to, "data: [DONE]\n\n"...)
}
