package billing

// The gateway has no tokenizer: each vendor has its own, and few publish it. If no
// provider has counted the tokens, they are estimated from bytes.
const (
	bytesPerToken       = 4       // average of text, for the likely number of tokens
	promptBytesPerToken = 2       // minimum of a request body, for the maximum number: code and numbers have more tokens than prose
	maxTokenBytes       = 12      // an event with more text than this is several tokens
	outputStep          = 4 << 10 // output tokens reserved at a time if the client set no limit
	outputSlack         = 256     // error of the estimate of a short response
)

// Estimate is a request's usage before a provider has counted it.
type Estimate struct {
	MaxPrompt int64 // prompt tokens to reserve
	Prompt    int64 // likely prompt tokens, charged if the provider reports no usage
	MaxOutput int64 // output tokens to reserve
	Bounded   bool  // the response cannot have more than MaxOutput
	Choices   int64 // among which MaxOutput is divided
}

// EstimateRequest estimates a request from the size of its body, the client's output
// limit per choice (0: none) and the number of choices. A request that generates nothing
// has no choices.
func EstimateRequest(bodySize int, outputLimit, choices int64) Estimate {
	n := int64(bodySize)
	e := Estimate{MaxPrompt: n/promptBytesPerToken + 1, Prompt: n/bytesPerToken + 1, MaxOutput: outputLimit * choices, Bounded: outputLimit > 0 || choices == 0, Choices: choices}
	if !e.Bounded {
		e.MaxOutput = outputStep * choices
	}
	return e
}

// limitPrompt limits the prompt to a model's context window; 0 is no limit.
func (e *Estimate) limitPrompt(context int64) {
	if context > 0 {
		e.MaxPrompt, e.Prompt = min(e.MaxPrompt, context), min(e.Prompt, context)
	}
}

// tokenCounter counts the tokens of a response by the sizes of its events. An event is
// one token, or more if its text is long. The shortest event so far is taken for the
// size of the JSON around the text.
type tokenCounter struct {
	tokens   int64
	shortest int
}

func (c *tokenCounter) addEvent(size int) {
	if c.shortest == 0 || size < c.shortest {
		c.shortest = size
	}
	c.addText(size - c.shortest)
}

func (c *tokenCounter) addText(size int) {
	c.tokens++
	if size > maxTokenBytes {
		c.tokens += int64(size / bytesPerToken)
	}
}
