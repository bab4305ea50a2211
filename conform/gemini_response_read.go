package conform

import (
	"fmt"
	"slices"
)

var geminiStops = map[string]string{"STOP": "end", "MAX_TOKENS": "length", "SAFETY": "filter", "BLOCKLIST": "filter",
	"PROHIBITED_CONTENT": "filter", "SPII": "filter", "RECITATION": "filter", "IMAGE_SAFETY": "filter"}

func (v gemini) readBody(body []byte) Reading {
	g := geminiStream{parts: []any{}, whole: true}
	g.bad = &g.seen.Problems
	o, err := parse(body)
	if err != nil || !o.isObject() {
		g.bad.add("not a JSON object: %v", err)
		return g.seen
	}
	g.response(o)
	return g.end()
}

func (v gemini) readStream(events []event) Reading {
	g := geminiStream{parts: []any{}}
	g.bad = &g.seen.Problems
	for _, e := range events {
		g.bad.addIf(e.name != "", "an event name %q (INV-11)", e.name)
		o, err := parse([]byte(e.data))
		switch {
		case err != nil || !o.isObject():
			g.bad.add("an event that is no GenerateContentResponse (INV-11): %.80q", e.data)
			continue
		case g.seen.Err != nil:
			g.bad.add("an event after an error (INV-3)")
		case o.at("error").here:
			f, err := v.readError(0, []byte(e.data))
			g.bad.addIf(err != nil, "%v", err)
			g.seen.Err = &f
			continue
		}
		g.response(o)
	}
	return g.end()
}

// geminiStream joins parts and checks INV-11.
type geminiStream struct {
	seen      Reading
	bad       *problemList
	id        string
	whole     bool // the response is not a stream: parts are complete
	parts     []any
	finish    string
	blocked   bool
	grounding value
	others    []*geminiStream // further candidates
}

func (g *geminiStream) response(o value) {
	if id := o.at("responseId").str(); g.id == "" {
		g.id = id
	} else {
		g.bad.addIf(id != g.id, "the responseId is %q, not %q (INV-11)", id, g.id)
	}
	if u := o.at("usageMetadata"); u.isObject() {
		g.usage(u)
	}
	g.blocked = g.blocked || o.at("promptFeedback", "blockReason").str() != ""
	list := o.at("candidates").list()
	g.bad.addIf(len(list) == 0 && !o.at("usageMetadata").here && !g.blocked, "an event with neither candidates nor usage (INV-11): %.120s", o)
	for _, c := range list {
		g := g.of(c.at("index").amount())
		g.bad.addIf(g.finish != "", "a candidate after its finishReason (INV-11)")
		if content := c.at("content"); content.here && content.at("role").str() != "model" {
			g.bad.add("content of role %q", content.at("role").str())
		}
		for _, p := range c.at("content", "parts").list() {
			g.part(p)
		}
		if f := c.at("finishReason"); f.here {
			g.finish = f.str()
		}
		if m := c.at("groundingMetadata"); m.isObject() {
			g.grounding = m
		}
	}
}

// of returns the candidate with an index.
func (g *geminiStream) of(index int) *geminiStream {
	if index <= 0 || index > len(g.others)+1 {
		return g
	}
	if index == len(g.others)+1 {
		g.others = append(g.others, &geminiStream{parts: []any{}, whole: g.whole, bad: g.bad})
	}
	return g.others[index-1]
}

func (g *geminiStream) usage(u value) {
	in, out, think := u.at("promptTokenCount").amount()+u.at("toolUsePromptTokenCount").amount(), u.at("candidatesTokenCount").amount(), u.at("thoughtsTokenCount").amount()
	if total, ok := u.at("totalTokenCount").count(); !ok || total != in+out+think {
		g.seen.Values.add("usageMetadata does not add up: %s", u.String())
	}
	g.seen.Usage = &Usage{In: in, Out: out + think, Think: think, Cached: u.at("cachedContentTokenCount").amount()}
}

// part adds a part, or appends plain text to the last part if it has the same kind.
func (g *geminiStream) part(p value) {
	o, _ := p.v.(object)
	text, isText := o["text"].(string)
	n := len(g.parts)
	plain := isText && (len(o) == 1 || len(o) == 2 && p.at("thought").here)
	if plain && n > 0 && !g.whole {
		if last, _ := g.parts[n-1].(object); last["text"] != nil && last["thoughtSignature"] == nil && (value{last, true}).at("thought").yes() == p.at("thought").yes() {
			last["text"] = merge(last["text"], text)
			return
		}
	}
	g.parts = append(g.parts, any(o))
}

func (g *geminiStream) end() Reading {
	for _, p := range g.parts {
		piece := (gemini{}).readPart(value{p, true}, "model", g.bad)
		if piece.Kind == kindText && piece.Text == "" && piece.Sig == "" {
			continue
		}
		if piece.Sig == "" && hasForeignSeal(value{p, true}) {
			piece.Sig = "carried"
		}
		g.seen.Pieces = append(g.seen.Pieces, piece)
	}
	for _, other := range g.others {
		g.seen.others = append(g.seen.others, other.end())
	}
	g.seen.Echo = g.echo()
	g.cites()
	switch {
	case g.blocked:
		g.seen.Stop, g.seen.Ended = "filter", true
	case g.finish != "":
		g.seen.Stop, g.seen.Ended = geminiStops[g.finish], g.seen.Err == nil
		if g.seen.Stop == "" {
			g.seen.Stop = otherStop + g.finish
		}
		if g.seen.Stop == "end" && len(g.seen.calls()) > 0 {
			g.seen.Stop = "tool"
		}
	}
	return g.seen
}

// echo returns the parts without empty texts, which the vendor rejects.
func (g *geminiStream) echo() []any {
	return slices.DeleteFunc(slices.Clone(g.parts), func(p any) bool {
		v := value{p, true}
		return v.at("text").isString() && v.at("text").str() == "" && !v.at("thoughtSignature").here
	})
}

func (g *geminiStream) cites() {
	chunks := g.grounding.at("groundingChunks").list()
	for _, s := range g.grounding.at("groundingSupports").list() {
		seg := s.at("segment")
		part := seg.at("partIndex").amount()
		from, to := seg.at("startIndex").amount(), seg.at("endIndex").amount()
		text := ""
		if part < len(g.parts) {
			text = (value{g.parts[part], true}).at("text").str()
		}
		span := fmt.Sprintf("bytes %d-%d outside of part %d", from, to, part)
		if from >= 0 && from <= to && to <= len(text) {
			span = text[from:to]
		}
		for _, i := range s.at("groundingChunkIndices").list() {
			n := i.amount()
			if n >= len(chunks) {
				g.bad.add("groundingChunkIndices names chunk %d of %d", n, len(chunks))
				continue
			}
			source := chunks[n].at("web")
			if !source.here {
				source = chunks[n].at("retrievedContext")
			}
			g.addCite(Cite{source.at("uri").str(), source.at("title").str(), span})
		}
	}
}

func (g *geminiStream) addCite(c Cite) {
	for i := range g.seen.Pieces {
		if p := &g.seen.Pieces[i]; p.Kind == kindText {
			p.Cites = append(p.Cites, c)
			return
		}
	}
	g.bad.add("a citation without text")
}

func (gemini) readError(status int, body []byte) (APIError, error) {
	o, err := parse(body)
	e := o.at("error")
	f := APIError{Status: status, Message: e.at("message").str(), detail: e.at("status").str() + " " + e.at("details").String()}
	code, ok := e.at("code").count()
	if err != nil || !ok || f.Message == "" || e.at("status").str() == "" {
		return f, fmt.Errorf("not the error envelope of Google: %.200s", body)
	}
	if status != 0 && code != status {
		return f, fmt.Errorf("error.code is %d in an answer with status %d", code, status)
	}
	f.Kind = kindByStatus(code, "")
	return f, nil
}
