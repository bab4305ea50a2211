package pair

import (
	"github.com/isogloss-gateway/isogloss/llm"
)

// Malformed returns the error of a response whose output is malformed, if the client's dialect has no
// word for that.
func (p *Pair) Malformed(s llm.Stop) *llm.Error {
	if s.Kind != llm.Malformed || p.Client.NamesMalformed || p.Client.Codec.Name() == p.Upstream.Codec.Name() {
		return nil
	}
	return &llm.Error{Kind: llm.Upstream, Code: llm.MalformedOutput,
		Message: "the model has called a tool in a form that cannot be read (" + s.Raw + "); try again"}
}

// EndMalformed ends events at a choice whose output is malformed with the error.
func (p *Pair) EndMalformed(events []llm.Event) []llm.Event {
	for i, e := range events {
		if c, ok := e.(llm.ChoiceEnd); ok {
			if err := p.Malformed(c.Stop); err != nil {
				return append(events[:i], llm.Failure{Err: err})
			}
		}
	}
	return events
}

// CheckOutput returns the error of the first choice whose output is malformed.
func (p *Pair) CheckOutput(resp *llm.Response) *llm.Error {
	for _, c := range resp.Choices {
		if err := p.Malformed(c.Stop); err != nil {
			return err
		}
	}
	return nil
}
