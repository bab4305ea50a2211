// Package completions is OpenAI's legacy text completions API,
// https://platform.openai.com/docs/api-reference/completions, for models that only chat:
// the prompt becomes a user message, and the text of the response becomes the completion.
// It only serves clients. A request to an upstream that has the endpoint is relayed.
package completions

import (
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
)

// own is the Ext.Protocol of unknown members. No protocol has this name, so that every
// encoder reports them as dropped.
const own = "openai-completions"

// Codec decodes requests for text completions and encodes their responses. Errors are
// those of Chat Completions.
type Codec struct{ openaichat.Codec }

var _ protocol.Translator = Codec{}
