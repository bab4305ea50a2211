package translate

import (
	"cmp"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Operation reports whether a call other than a conversation can be translated for an
// upstream of a dialect.
func Operation(c *exchange.Call, upstream *codec.Dialect) bool {
	switch c.Operation {
	case codec.CountTokens:
		return c.Dialect.Count != nil && upstream.Count != nil
	case codec.Embed:
		return upstream != c.Dialect && c.Dialect.Embed != nil && upstream.Embed != nil
	case codec.Rerank:
		return upstream == c.Dialect
	}
	return false
}

func (a *attempt) translateOperation(report *llm.Report) *llm.Error {
	switch a.call.Operation {
	case codec.CountTokens:
		return a.translateCount(report)
	case codec.Embed:
		return a.translateEmbedding(report)
	default:
		return a.translateRerank(report)
	}
}

// translateCount translates a token count request for the upstream.
func (a *attempt) translateCount(report *llm.Report) *llm.Error {
	from, to := a.call.Dialect.Count, a.target.Dialect.Count
	ask, err := from.DecodeRequest(a.call.Incoming())
	if err != nil {
		return err
	}
	a.rewrite = func(body []byte) ([]byte, *llm.Error) {
		n, err := to.DecodeResponse(body)
		if err != nil {
			return nil, err
		}
		return from.EncodeResponse(n), nil
	}
	return encodeOperation(a, to.EncodeRequest, ask, report)
}

// translateEmbedding translates an embedding request for the upstream.
func (a *attempt) translateEmbedding(report *llm.Report) *llm.Error {
	from, to := a.call.Dialect.Embed, a.target.Dialect.Embed
	ask, err := from.DecodeRequest(a.call.Location, a.call.Body.Text())
	if err != nil {
		return err
	}
	a.rewrite = func(body []byte) ([]byte, *llm.Error) {
		e, err := to.DecodeResponse(body)
		if err != nil {
			return nil, err
		}
		a.summary.Usage = e.Usage
		if len(e.Vectors) != len(ask.Inputs) {
			return nil, codec.InvalidResponse("the upstream's response does not hold one vector for each input", nil)
		}
		e.Model = cmp.Or(e.Model, a.target.Model)
		return from.EncodeResponse(e, ask)
	}
	return encodeOperation(a, to.EncodeRequest, ask, report)
}

// encodeOperation sets the upstream's request.
func encodeOperation[T any](a *attempt, encode func(T, protocol.Target, *llm.Report) (protocol.Outgoing, *llm.Error), ask T, report *llm.Report) *llm.Error {
	out, err := encode(ask, a.call.EncodeTarget(a.target), report)
	if err != nil {
		return err
	}
	return a.setRequest(out, report.Losses)
}

// translateRerank translates a rerank request for the upstream.
func (a *attempt) translateRerank(report *llm.Report) *llm.Error {
	if _, _, err := a.call.EditExtensions(a.target); err != nil {
		return err
	}
	out, err := a.call.Rerank.Encode(a.call.Body.Text(), string(a.target.Provider.Rerank), a.call.EncodeTarget(a.target), report)
	if err != nil {
		return err
	}
	if err := a.setRequest(out.Outgoing, report.Losses); err != nil {
		return err
	}
	a.request.RejectedKey = out.BadKey
	a.rewrite = func(body []byte) (_ []byte, err *llm.Error) {
		body, a.summary, err = out.EncodeResponse(body, a.call.ID)
		return body, err
	}
	return nil
}
