package gosdk

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/auth/bearer"
)

// converse wraps the client of Amazon Bedrock.
type converse struct{ *bedrockruntime.Client }

// Converse is AWS's SDK with the Converse API. It sends its key over HTTPS only.
func Converse(_ context.Context, o Options) (*SDK, error) {
	c := converse{bedrockruntime.New(bedrockruntime.Options{
		Region: "us-east-1", BaseEndpoint: &o.BaseURL, HTTPClient: copiedBodies{o.HTTP}, Retryer: aws.NopRetryer{}, AuthSchemePreference: []string{"httpBearerAuth"},
		BearerAuthTokenProvider: bearer.StaticTokenProvider{Token: bearer.Token{Value: o.Key}},
	})}
	return &SDK{Dialect: "converse", Ask: c.ask, Failure: converseFailure, CountTokens: c.countTokens}, nil
}

// copiedBodies sends copies of bodies. The SDK closes a body as soon as the response begins. A
// transport that has yet to read the end of it then closes the connection, about once in 100
// streams of a server on loopback.
type copiedBodies struct{ *http.Client }

// Do sends a request.
func (c copiedBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return c.Client.Do(r) //nolint:gosec // the address is the test's own
}

func (c converse) ask(ctx context.Context, r Request) (Answer, error) {
	in, err := c.input(r)
	if err != nil {
		return Answer{}, err
	}
	if r.Stream {
		return c.stream(ctx, r, in)
	}
	out, err := c.Converse(ctx, in)
	if err != nil {
		return Answer{}, err
	}
	return c.answer(out.Output.(*types.ConverseOutputMemberMessage).Value, out.StopReason, out.Usage)
}

func (converse) input(r Request) (*bedrockruntime.ConverseInput, error) {
	in := &bedrockruntime.ConverseInput{ModelId: &r.Model, InferenceConfig: &types.InferenceConfiguration{MaxTokens: aws.Int32(int32(r.MaxTokens)), StopSequences: r.Stop}}
	content := []types.ContentBlock{&types.ContentBlockMemberText{Value: r.Prompt}}
	if r.Image != "" {
		data, err := base64.StdEncoding.DecodeString(r.Image)
		if err != nil {
			return nil, err
		}
		content = append(content, &types.ContentBlockMemberImage{Value: types.ImageBlock{Format: types.ImageFormatPng, Source: &types.ImageSourceMemberBytes{Value: data}}})
	}
	in.Messages = []types.Message{{Role: types.ConversationRoleUser, Content: content}}
	if r.After != nil {
		var results []types.ContentBlock
		for i, text := range r.Results {
			results = append(results, &types.ContentBlockMemberToolResult{Value: types.ToolResultBlock{
				ToolUseId: &r.After.Calls[i].ID, Content: []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberText{Value: text}},
			}})
		}
		in.Messages = append(in.Messages, r.After.echo.(types.Message), types.Message{Role: types.ConversationRoleUser, Content: results})
	}
	if r.System != "" {
		in.System = []types.SystemContentBlock{&types.SystemContentBlockMemberText{Value: r.System}}
	}
	if r.Fixed {
		in.InferenceConfig.Temperature = aws.Float32(0)
	}
	if r.Thinking {
		in.AdditionalModelRequestFields = document.NewLazyDocument(map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 1024}})
	}
	if r.Schema != nil {
		schema, err := json.Marshal(r.Schema)
		if err != nil {
			return nil, err
		}
		in.OutputConfig = &types.OutputConfig{TextFormat: &types.OutputFormat{Type: types.OutputFormatTypeJsonSchema, Structure: &types.OutputFormatStructureMemberJsonSchema{
			Value: types.JsonSchemaDefinition{Name: aws.String("answer"), Schema: aws.String(string(schema))},
		}}}
	}
	if r.Tool != "" {
		in.ToolConfig = &types.ToolConfiguration{Tools: []types.Tool{&types.ToolMemberToolSpec{Value: types.ToolSpecification{
			Name: &r.Tool, Description: aws.String(ToolDescription), InputSchema: &types.ToolInputSchemaMemberJson{Value: document.NewLazyDocument(CitySchema())},
		}}}}
		if r.ForceTool {
			in.ToolConfig.ToolChoice = &types.ToolChoiceMemberAny{}
		}
	}
	return in, nil
}

// stream reads a stream. The SDK has no accumulator.
func (c converse) stream(ctx context.Context, r Request, in *bedrockruntime.ConverseInput) (Answer, error) {
	out, err := c.ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{
		ModelId: in.ModelId, Messages: in.Messages, System: in.System, InferenceConfig: in.InferenceConfig, ToolConfig: in.ToolConfig,
		OutputConfig: in.OutputConfig, AdditionalModelRequestFields: in.AdditionalModelRequestFields,
	})
	if err != nil {
		return Answer{}, err
	}
	events := out.GetStream()
	defer events.Close()
	var m converseMessage
	for e := range events.Events() {
		if r.piece(m.add(e)) {
			return Answer{}, events.Close()
		}
	}
	if err := events.Err(); err != nil {
		return Answer{}, err
	}
	return c.answer(m.message(), m.finish, m.usage)
}

// converseMessage collects the events of a stream.
type converseMessage struct {
	blocks []converseBlock
	finish types.StopReason
	usage  *types.TokenUsage
}

type converseBlock struct {
	text, thought, seal, input string
	call                       *types.ToolUseBlockStart
}

// at returns the block with an index.
func (m *converseMessage) at(index *int32) *converseBlock {
	for int(*index) >= len(m.blocks) {
		m.blocks = append(m.blocks, converseBlock{})
	}
	return &m.blocks[*index]
}

// add adds an event and returns its text.
func (m *converseMessage) add(e types.ConverseStreamOutput) (text string) {
	switch e := e.(type) {
	case *types.ConverseStreamOutputMemberContentBlockStart:
		if s, ok := e.Value.Start.(*types.ContentBlockStartMemberToolUse); ok {
			m.at(e.Value.ContentBlockIndex).call = &s.Value
		}
	case *types.ConverseStreamOutputMemberContentBlockDelta:
		b := m.at(e.Value.ContentBlockIndex)
		switch d := e.Value.Delta.(type) {
		case *types.ContentBlockDeltaMemberText:
			b.text += d.Value
			return d.Value
		case *types.ContentBlockDeltaMemberToolUse:
			b.input += aws.ToString(d.Value.Input)
		case *types.ContentBlockDeltaMemberReasoningContent:
			switch d := d.Value.(type) {
			case *types.ReasoningContentBlockDeltaMemberText:
				b.thought += d.Value
			case *types.ReasoningContentBlockDeltaMemberSignature:
				b.seal = d.Value
			}
		}
	case *types.ConverseStreamOutputMemberMessageStop:
		m.finish = e.Value.StopReason
	case *types.ConverseStreamOutputMemberMetadata:
		m.usage = e.Value.Usage
	}
	return ""
}

func (m *converseMessage) message() types.Message {
	out := types.Message{Role: types.ConversationRoleAssistant}
	for _, b := range m.blocks {
		switch {
		case b.call != nil:
			var input any
			_ = json.Unmarshal([]byte(b.input), &input) // arguments that are no JSON show in the report
			out.Content = append(out.Content, &types.ContentBlockMemberToolUse{Value: types.ToolUseBlock{ToolUseId: b.call.ToolUseId, Name: b.call.Name, Input: document.NewLazyDocument(input)}})
		case b.thought != "":
			out.Content = append(out.Content, &types.ContentBlockMemberReasoningContent{Value: &types.ReasoningContentBlockMemberReasoningText{
				Value: types.ReasoningTextBlock{Text: aws.String(b.thought), Signature: aws.String(b.seal)},
			}})
		default:
			out.Content = append(out.Content, &types.ContentBlockMemberText{Value: b.text})
		}
	}
	return out
}

func (converse) answer(m types.Message, finish types.StopReason, u *types.TokenUsage) (Answer, error) {
	a := Answer{Finish: string(finish), echo: m}
	for _, b := range m.Content {
		switch b := b.(type) {
		case *types.ContentBlockMemberText:
			a.Text += b.Value
		case *types.ContentBlockMemberReasoningContent:
			if t, ok := b.Value.(*types.ReasoningContentBlockMemberReasoningText); ok {
				a.Thought += aws.ToString(t.Value.Text)
			}
		case *types.ContentBlockMemberToolUse:
			args, err := b.Value.Input.MarshalSmithyDocument()
			if err != nil {
				return a, err
			}
			a.Calls = append(a.Calls, Call{*b.Value.ToolUseId, *b.Value.Name, string(args)})
		}
	}
	if u != nil {
		cached := int(aws.ToInt32(u.CacheReadInputTokens))
		a.Usage = Usage{
			Input: int(aws.ToInt32(u.InputTokens)+aws.ToInt32(u.CacheWriteInputTokens)) + cached, Cached: cached,
			Output: int(aws.ToInt32(u.OutputTokens)), Total: int(aws.ToInt32(u.TotalTokens)),
		}
	}
	return a, nil
}

func converseFailure(err error) *Failure {
	var said smithy.APIError
	var response *awshttp.ResponseError
	if !errors.As(err, &said) || !errors.As(err, &response) {
		return nil
	}
	return &Failure{Class(said), response.HTTPStatusCode(), said.ErrorMessage(), response.HTTPResponse().Header.Get("Retry-After")}
}

func (c converse) countTokens(ctx context.Context, r Request) (int, error) {
	in, err := c.input(r)
	if err != nil {
		return 0, err
	}
	out, err := c.CountTokens(ctx, &bedrockruntime.CountTokensInput{ModelId: in.ModelId, Input: &types.CountTokensInputMemberConverse{
		Value: types.ConverseTokensRequest{Messages: in.Messages, System: in.System},
	}})
	if err != nil {
		return 0, err
	}
	return int(aws.ToInt32(out.InputTokens)), nil
}
