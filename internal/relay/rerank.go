package relay

import (
	"cmp"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/rerank"
)

// rerankers write a request in the form that a provider has for it.
var rerankers = map[provider.Rerank]func(*rerank.Request, string, *llm.Report) (protocol.Outgoing, *llm.Error){
	provider.RerankCohere: rerank.EncodeCohere,
	provider.RerankJina:   rerank.EncodeJina,
}

// reranksOtherwise reports whether a provider has a form of its own.
func reranksOtherwise(p *provider.Provider) bool { return rerankers[p.Rerank] != nil }

// rerankOver asks for an order of documents in the provider's own form.
func rerankOver(x *exchange) *llm.Error {
	report, err := x.newReport()
	if err != nil {
		return err
	}
	if _, err := x.nvext(); err != nil {
		return err
	}
	ask, err := rerank.DecodeRequest(x.ask.body)
	if err != nil {
		return err
	}
	out, err := rerankers[x.target.Provider.Rerank](ask, x.target.Model, report)
	if err != nil {
		return x.refusal(report, err)
	}
	x.sendAs(&translation{out: out, losses: report.Losses, badKey: rerank.StatusInvalidToken, rewrite: func(body []byte) ([]byte, *llm.Error) {
		a, err := rerank.DecodeAnswer(body, ask)
		if err != nil {
			return nil, err
		}
		a.ID, a.Model = cmp.Or(a.ID, x.seen.ID), cmp.Or(a.Model, x.target.Model)
		x.translation.summary.ID, x.translation.summary.Model, x.translation.summary.Usage = a.ID, a.Model, a.Usage()
		return rerank.EncodeAnswer(a, ask), nil
	}})
	return nil
}
