package relay

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/anthropic"
	"github.com/isogloss-gateway/isogloss/protocol/gemini"
)

// counter is a dialect that counts the tokens of a prompt without answering it.
type counter struct {
	decode func(protocol.Incoming) (*llm.Request, *llm.Error)
	encode func(*llm.Request, protocol.Target, *llm.Report) (protocol.Outgoing, *llm.Error)
	read   func([]byte) (int64, *llm.Error)
	write  func(int64) []byte
}

var counters = map[protocol.Name]counter{
	protocol.Anthropic: {anthropic.Codec{}.DecodeCountRequest, anthropic.Codec{}.EncodeCountRequest, anthropic.Codec{}.DecodeCount, anthropic.Codec{}.EncodeCount},
	protocol.Gemini:    {gemini.DecodeCountRequest, gemini.EncodeCountRequest, gemini.DecodeCountResponse, gemini.EncodeCountResponse},
}

// counting is by whom else tokens are counted; also by the same dialect in another
// version.
var counting = map[protocol.Name]func(*exchange) *llm.Error{protocol.Anthropic: translateCount, protocol.Gemini: translateCount}

// translateCount asks the upstream to count in its own dialect.
func translateCount(x *exchange) *llm.Error {
	from, to := counters[x.endpoint.dialect], counters[x.target.Provider.Protocol]
	ask, err := from.decode(x.incoming())
	if err != nil {
		return err
	}
	report, err := x.newReport()
	if err != nil {
		return err
	}
	out, err := to.encode(ask, x.upstreamTarget(), report)
	if err != nil {
		return x.refusal(report, err)
	}
	x.sendAs(&translation{ask: ask, out: out, losses: report.Losses, rewrite: func(body []byte) ([]byte, *llm.Error) {
		n, err := to.read(body)
		if err != nil {
			return nil, err
		}
		return from.write(n), nil
	}})
	return nil
}
