package completions

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// request is the body of POST /v1/completions.
type request struct {
	Model            wire.Opt[string]                   `json:"model"`
	Prompt           wire.Opt[prompt]                   `json:"prompt"`
	Suffix           wire.Opt[string]                   `json:"suffix"`
	MaxTokens        wire.Opt[wire.Number]              `json:"max_tokens"`
	Temperature      wire.Opt[wire.Number]              `json:"temperature"`
	TopP             wire.Opt[wire.Number]              `json:"top_p"`
	N                wire.Opt[wire.Number]              `json:"n"`
	BestOf           wire.Opt[wire.Number]              `json:"best_of"`
	Stream           wire.Opt[bool]                     `json:"stream"`
	StreamOptions    wire.Opt[openaichat.StreamOptions] `json:"stream_options"`
	Logprobs         wire.Raw                           `json:"logprobs"`
	Echo             wire.Opt[bool]                     `json:"echo"`
	Stop             wire.Opt[openaichat.Stop]          `json:"stop"`
	PresencePenalty  wire.Opt[wire.Number]              `json:"presence_penalty"`
	FrequencyPenalty wire.Opt[wire.Number]              `json:"frequency_penalty"`
	LogitBias        wire.Opt[wire.Object]              `json:"logit_bias"`
	Seed             wire.Opt[wire.Number]              `json:"seed"`
	User             wire.Opt[string]                   `json:"user"`

	Extra wire.Extra `json:"-"`
}

// prompt is a text, a token, or a list of either or of lists of tokens.
type prompt struct {
	Text  wire.Opt[wire.Text]         `wire:"string"`
	Token wire.Opt[wire.Number]       `wire:"number"`
	List  wire.Opt[wire.List[prompt]] `wire:"array"`
}

// DecodeRequest decodes the body of POST /v1/completions.
func (Codec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	var r request
	if err := wire.Unmarshal(in.Body, &r); err != nil {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Message: "the request is not one of text completions: " + err.Error(), Cause: err}
	}
	if err := r.unsupported(); err != nil {
		return nil, err
	}
	text, err := r.Prompt.Value().one()
	if err != nil {
		return nil, err
	}
	out := &llm.Request{
		Model: r.Model.Value(), Stream: r.Stream.Value(), IncludeUsage: r.StreamOptions.Value().IncludeUsage.Value(),
		Turns:    []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: text}}}},
		Output:   llm.Output{Stops: r.Stop.Value().Sequences()},
		Identity: llm.Identity{User: r.User.Value()},
		Ext:      r.ext(),
	}
	out.Sampling = llm.Sampling{
		Temperature: llm.Number(r.Temperature.Value()), TopP: llm.Number(r.TopP.Value()), Seed: llm.Number(r.Seed.Value()),
		FrequencyPenalty: llm.Number(r.FrequencyPenalty.Value()), PresencePenalty: llm.Number(r.PresencePenalty.Value()),
		LogitBias: rawOf(r.LogitBias),
	}
	if out.Output.MaxTokens, err = whole("max_tokens", r.MaxTokens); err != nil {
		return nil, err
	}
	if out.Output.Choices, err = whole("n", r.N); err != nil {
		return nil, err
	}
	return out, nil
}

// unsupported rejects members that a chat has no counterpart of and that change the
// meaning of the request.
func (r *request) unsupported() *llm.Error {
	best, err := whole("best_of", r.BestOf)
	switch {
	case err != nil:
		return err
	case best != nil && *best != 1:
		return refuse("best_of", "best_of is not supported for chat models; omit it")
	case r.Suffix.Value() != "":
		return refuse("suffix", "suffix is not supported for chat models; omit it")
	case r.Echo.Value():
		return refuse("echo", "echo is not supported for chat models; omit it")
	case len(r.Logprobs) > 0 && r.Logprobs[0] != 'n':
		return refuse("logprobs", "a chat has no log probabilities in the form of text completions; leave logprobs out")
	}
	return nil
}

func refuse(member, message string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "completion.unsupported", Param: member,
		Message: member + ": the model is called as a chat: " + message}
}

// one returns the text of a prompt that is one text.
func (p prompt) one() (string, *llm.Error) {
	if p.Text.IsSet() {
		return p.Text.Value().String(), nil
	}
	tokens := p.Token.IsSet()
	text := ""
	list := p.List.Value()
	for _, p := range list.All() {
		tokens = tokens || !p.Text.IsSet()
		text = p.Text.Value().String()
	}
	switch {
	case tokens:
		return "", refuse("prompt", "token ids mean nothing to a model of another vendor; send the prompt as text")
	case list.Len() > 1:
		return "", refuse("prompt", "it takes one prompt at a time; send a request for each")
	case list.Len() == 1:
		return text, nil
	}
	return "", &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: "prompt", Message: "prompt is missing; send the text to complete"}
}

// ext returns the members without a field.
func (r *request) ext() llm.Ext {
	e := llm.Ext{Protocol: own, Members: codec.Members(r.Extra.All())}
	if o := r.StreamOptions.Value(); o.IncludeObfuscation.IsSet() || len(o.Extra.All()) > 0 {
		e.Members = append(e.Members, llm.Member{Name: "stream_options", Value: rawOf(r.StreamOptions)})
	}
	return e
}

func rawOf[T any](o wire.Opt[T]) llm.Raw {
	b, err := o.MarshalJSON()
	if err != nil || !o.IsSet() {
		return ""
	}
	return llm.Raw(b)
}

func whole(name string, o wire.Opt[wire.Number]) (*int64, *llm.Error) {
	n, ok := o.Get()
	if !ok {
		return nil, nil
	}
	i, err := n.Int64()
	if err != nil {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: name, Message: name + " must be an integer"}
	}
	return &i, nil
}
