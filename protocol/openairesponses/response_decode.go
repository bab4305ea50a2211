package openairesponses

import (
	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeResponse decodes a non-streaming response as a stream that has only its
// last event.
func (Codec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	if err := wire.CheckElements(body); err != nil {
		return nil, unreadable(err)
	}
	var s snapshot
	if err := json.Unmarshal(body, &s, wire.Lenient); err != nil {
		return nil, unreadable(err)
	}
	if err := s.whole(); err != nil {
		return nil, err
	}
	switch status := wire.Scalar(s.Status); status {
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
		case isEcho(m.Name): // it repeats the client's request, so nothing is lost
			r.Ext.Members = append(r.Ext.Members, llm.Member{Name: spelled(m.Name), Value: llm.Raw(m.Value)})
		default:
			r.Ext.Members = append(r.Ext.Members, llm.Member{Name: m.Name, Value: llm.Raw(m.Value)})
		}
	}
	return r, nil
}
