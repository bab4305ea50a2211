// Package completions is OpenAI's older text completions,
// https://platform.openai.com/docs/api-reference/completions, for models that
// only chat: the prompt becomes what a user says, and the answer's text the
// completion. It is a form for clients. No upstream is asked in it: those that
// have the endpoint are relayed to.
package completions

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
)

// own is whose members a request holds that no field stands for. No protocol has
// the name, so that every encoder reports them.
const own = "openai-completions"

// Codec reads requests for text completions and writes the answers. Errors are
// those of chat completions, of which the endpoint is a neighbour.
type Codec struct{ openaichat.Codec }

var _ protocol.Translator = Codec{}

// ReportForm notes what becomes of every request in this form, whatever it holds.
func (Codec) ReportForm(report *llm.Report) {
	report.Approximate("turns", "completion.as_chat", "the prompt is sent as a message, which the model answers; it does not continue it")
}
