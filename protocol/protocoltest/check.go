package protocoltest

import (
	"errors"
	"fmt"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Ending is the way in which a stream ends for the client.
type Ending string

// The endings.
const (
	Open      Ending = "open"      // without any sign
	Completed Ending = "completed" // with the protocol's success terminal
	Failed    Ending = "failed"    // with the protocol's error form
)

// Check reads a stream as conform's client of the protocol, which knows no codec. It returns
// how the stream ends and what the client rejects.
func Check(name protocol.Name, stream []byte) (Ending, error) {
	d, ok := map[protocol.Name]conform.Dialect{protocol.OpenAIChat: conform.Chat, protocol.OpenAIResponses: conform.Responses,
		protocol.Anthropic: conform.Anthropic, protocol.Gemini: conform.Gemini, protocol.Converse: conform.Converse}[name]
	if !ok {
		return Open, fmt.Errorf("no reader of the protocol %q", name)
	}
	var problems []error
	read := d.ReadText(stream)
	for _, p := range append(conform.CheckFraming(stream), read.Problems...) {
		problems = append(problems, errors.New(p))
	}
	ending := Open
	switch {
	case read.Err != nil:
		ending = Failed
	case read.Ended:
		ending = Completed
	}
	return ending, errors.Join(problems...)
}
