package rerank

import (
	"cmp"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// The forms that a provider may have, beside that of the clients.
const (
	Cohere = "cohere" // version 2 of Cohere's API
	Jina   = "jina"
)

// Route describes the endpoint to the gateway, as a route of the Chat Completions
// dialect.
func Route() codec.Route {
	return codec.Route{Name: "rerank", Operation: codec.Rerank, Path: "/v1/rerank", Span: "rerank",
		Rerank: &codec.Reranker{Forms: []string{Cohere, Jina}, Encode: encode}, Cacheable: &codec.CacheRule{}}
}

// encode writes a client's request in a provider's form.
func encode(body []byte, form string, target protocol.Target, report *llm.Report) (codec.Reranking, *llm.Error) {
	req, err := DecodeRequest(body)
	if err != nil {
		return codec.Reranking{}, err
	}
	write := EncodeJina
	if form == Cohere {
		write = EncodeCohere
	}
	out, err := write(req, target.Model, report)
	if err != nil {
		return codec.Reranking{}, err
	}
	return codec.Reranking{Outgoing: out, BadKey: StatusInvalidToken,
		EncodeResponse: func(body []byte, id string) ([]byte, protocol.Summary, *llm.Error) {
			a, err := DecodeAnswer(body, req)
			if err != nil {
				return nil, protocol.Summary{}, err
			}
			a.ID, a.Model = cmp.Or(a.ID, id), cmp.Or(a.Model, target.Model)
			return EncodeAnswer(a, req), protocol.Summary{ID: a.ID, Model: a.Model, Usage: a.Usage()}, nil
		}}, nil
}
