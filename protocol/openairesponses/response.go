package openairesponses

import (
	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
)

// modelled are the members of a response that the neutral model has fields for.
var modelled = map[string]bool{
	"id": true, "object": true, "created_at": true, "status": true, "error": true, "incomplete_details": true,
	"model": true, "output": true, "usage": true, "service_tier": true,
}

// DecodeResponse reads an upstream's whole answer as a stream that has only its
// last event.
func (Codec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	var s snapshot
	if err := json.Unmarshal(body, &s, lenient); err != nil {
		return nil, unreadable(err)
	}
	if err := s.whole(); err != nil {
		return nil, err
	}
	switch status := scalar(s.Status); status {
	case "queued", "in_progress":
		return nil, &llm.Error{Kind: llm.Upstream, Code: "upstream_incomplete", Message: "the upstream's response is still " + status}
	case "":
		s.Status = []byte(`"completed"`)
	}
	d := streamDecoder{}
	all := llm.Collector{}
	for _, e := range d.end(&s, d.begin(&s, nil)) {
		if err := all.Add(e); err != nil {
			return nil, unreadable(err)
		}
	}
	r, err := all.Response()
	if err != nil {
		return nil, unreadable(err)
	}
	r.Ext.Protocol = own
	for _, m := range membersOf(llm.Raw(body)) {
		if !modelled[m.Name] {
			r.Ext.Members = append(r.Ext.Members, llm.Member{Name: m.Name, Value: llm.Raw(m.Value)})
		}
	}
	return r, nil
}

// EncodeResponse writes a whole answer as the snapshot that would end a stream of
// it.
func (Codec) EncodeResponse(resp *llm.Response, ask *llm.Request, report *llm.Report) []byte {
	s := newStreamEncoder(ask)
	if len(resp.Choices) > 1 {
		report.Drop("choices", "choices.dropped", "a response has one answer; the others are left out")
	}
	reportLosses(resp, report)
	var scratch []byte
	for _, e := range llm.Explode(resp) {
		scratch = s.Encode(e, scratch[:0])
	}
	return s.last
}

// reportLosses notes what of an answer has no place.
func reportLosses(resp *llm.Response, report *llm.Report) {
	for _, c := range resp.Choices {
		for _, b := range c.Blocks {
			switch b := b.(type) {
			case *llm.Text:
				for _, cite := range b.Citations {
					if _, ok := encodeAnnotation(cite, 0); !ok {
						report.Drop("citations", "citation.no_url", "a citation without an address has no place in a response")
					}
				}
			case *llm.ServerCall:
				if b.Protocol != own {
					report.Drop("blocks", "server_tool.dropped", "the item "+b.Type+" of another vendor is left out")
				}
			case *llm.Opaque:
				if b.Protocol != own {
					report.Drop("blocks", "block.unknown", "the block "+b.Type+" of another vendor is left out")
				}
			}
		}
	}
}
