package translate

import (
	"github.com/isogloss-gateway/isogloss/llm"
)

// malformed returns the error of a response whose output is malformed, if the client's dialect has no
// word for that.
func (a *attempt) malformed(s llm.Stop) *llm.Error {
	if s.Kind != llm.Malformed || a.call.Dialect.NamesMalformed || a.call.Dialect.Codec.Name() == a.target.Dialect.Codec.Name() {
		return nil
	}
	return &llm.Error{Kind: llm.Upstream, Code: llm.MalformedOutput,
		Message: "the model has called a tool in a form that cannot be read (" + s.Raw + "); try again"}
}

// endMalformed ends events at a choice whose output is malformed with the error.
func (a *attempt) endMalformed(events []llm.Event) []llm.Event {
	for i, e := range events {
		if c, ok := e.(llm.ChoiceEnd); ok {
			if err := a.malformed(c.Stop); err != nil {
				return append(events[:i], llm.Failure{Err: err})
			}
		}
	}
	return events
}

// checkOutput returns the error of the first choice whose output is malformed.
func (a *attempt) checkOutput(resp *llm.Response) *llm.Error {
	for _, c := range resp.Choices {
		if err := a.malformed(c.Stop); err != nil {
			a.summary.Usage = resp.Usage
			return err
		}
	}
	return nil
}
