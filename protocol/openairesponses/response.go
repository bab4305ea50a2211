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
		switch {
		case modelled[m.Name]:
		case isEcho(m.Name): // the client's own words: no loss to another protocol
			r.Ext.Members = append(r.Ext.Members, llm.Member{Name: spelled(m.Name), Value: llm.Raw(m.Value)})
		default:
			r.Ext.Members = append(r.Ext.Members, llm.Member{Name: m.Name, Value: llm.Raw(m.Value)})
		}
	}
	return r, nil
}

// EncodeResponse writes a whole answer as the snapshot that would end a stream of
// it.
func (Codec) EncodeResponse(resp *llm.Response, ask *llm.Request, report *llm.Report) []byte {
	s := newStreamEncoder(ask)
	reportLosses(resp, report)
	var scratch []byte
	for _, e := range llm.Explode(resp) {
		scratch = s.Encode(e, scratch[:0])
	}
	return s.last
}
