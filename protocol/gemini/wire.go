package gemini

import "github.com/isogloss-gateway/isogloss/protocol/wire"

// Request is the body of generateContent and streamGenerateContent.
type Request struct {
	Model             wire.Opt[string]           `json:"model"` // the path says it too
	Contents          wire.Opt[List[Content]]    `json:"contents"`
	SystemInstruction wire.Opt[Content]          `json:"systemInstruction"`
	Tools             wire.Opt[List[Tool]]       `json:"tools"`
	ToolConfig        wire.Opt[ToolConfig]       `json:"toolConfig"`
	GenerationConfig  wire.Opt[GenerationConfig] `json:"generationConfig"`
	SafetySettings    wire.Raw                   `json:"safetySettings"`
	CachedContent     wire.Raw                   `json:"cachedContent"`
	ServiceTier       wire.Opt[string]           `json:"serviceTier"` // standard, flex, priority
	Store             wire.Opt[bool]             `json:"store"`
	ContinuationToken wire.Raw                   `json:"continuationToken"`
	Labels            wire.Raw                   `json:"labels"`
	ModelArmorConfig  wire.Raw                   `json:"modelArmorConfig"`
	Extra             wire.Extra                 `json:"-"`
}

// List is a list, or its only item without the brackets: Google takes both.
type List[T any] struct {
	One  wire.Opt[T]   `wire:"object"`
	Many wire.Opt[[]T] `wire:"array"`
}

// Items returns the items of either form.
func (l *List[T]) Items() []T {
	if one := l.One.Ptr(); one != nil {
		return []T{*one}
	}
	return l.Many.Value()
}

func listOf[T any](items []T) wire.Opt[List[T]] { return wire.Some(List[T]{Many: wire.Some(items)}) }

// Content is what one side says at once.
type Content struct {
	Role  wire.Opt[string]     `json:"role"` // user, model; absent means user
	Parts wire.Opt[List[Part]] `json:"parts"`
	Extra wire.Extra           `json:"-"`
}

// Part is a piece of a content: one data member, and remarks about it.
type Part struct {
	Text             wire.Opt[wire.Text]        `json:"text"`
	InlineData       wire.Opt[Blob]             `json:"inlineData"`
	FileData         wire.Opt[FileData]         `json:"fileData"`
	FunctionCall     wire.Opt[FunctionCall]     `json:"functionCall"`
	FunctionResponse wire.Opt[FunctionResponse] `json:"functionResponse"`

	// What the vendor's own tools do; it is returned as it came.
	ExecutableCode      wire.Raw `json:"executableCode"`
	CodeExecutionResult wire.Raw `json:"codeExecutionResult"`
	ToolCall            wire.Raw `json:"toolCall"`
	ToolResponse        wire.Raw `json:"toolResponse"`

	Thought          wire.Opt[bool]   `json:"thought"`
	ThoughtSignature wire.Opt[string] `json:"thoughtSignature"`

	VideoMetadata   wire.Raw `json:"videoMetadata"`
	MediaResolution wire.Raw `json:"mediaResolution"`
	PartMetadata    wire.Raw `json:"partMetadata"`
	MediaProcessing wire.Raw `json:"mediaProcessing"`
	SpeechMetadata  wire.Raw `json:"speechMetadata"`

	ExtraContent wire.Raw   `json:"extra_content"` // the gateway's carrier for foreign seals
	Extra        wire.Extra `json:"-"`
}

// Blob is data in the body itself.
type Blob struct {
	MIMEType wire.Opt[string] `json:"mimeType"`
	Data     wire.Opt[string] `json:"data"` // base64 of either alphabet
	Extra    wire.Extra       `json:"-"`
}

// FileData is data by its address.
type FileData struct {
	MIMEType wire.Opt[string] `json:"mimeType"`
	FileURI  wire.Opt[string] `json:"fileUri"`
	Extra    wire.Extra       `json:"-"`
}

// FunctionCall is a model's wish to have a function run.
type FunctionCall struct {
	ID    wire.Opt[string] `json:"id"`
	Name  wire.Opt[string] `json:"name"`
	Args  wire.Raw         `json:"args"`
	Extra wire.Extra       `json:"-"`
}

// FunctionResponse is what a function gave.
type FunctionResponse struct {
	ID       wire.Opt[string]           `json:"id"`
	Name     wire.Opt[string]           `json:"name"`
	Response wire.Raw                   `json:"response"`
	Parts    wire.Opt[[]FunctionOutput] `json:"parts"`
	Extra    wire.Extra                 `json:"-"`
}

// FunctionOutput is a medium in a function's response.
type FunctionOutput struct {
	InlineData wire.Opt[Blob]     `json:"inlineData"`
	FileData   wire.Opt[FileData] `json:"fileData"`
	Extra      wire.Extra         `json:"-"`
}

// Tool is a set of functions, or a tool of the vendor's own, or both.
type Tool struct {
	FunctionDeclarations wire.Opt[List[FunctionDeclaration]] `json:"functionDeclarations"`

	GoogleSearch          wire.Raw   `json:"googleSearch"`
	GoogleSearchRetrieval wire.Raw   `json:"googleSearchRetrieval"`
	CodeExecution         wire.Raw   `json:"codeExecution"`
	URLContext            wire.Raw   `json:"urlContext"`
	GoogleMaps            wire.Raw   `json:"googleMaps"`
	FileSearch            wire.Raw   `json:"fileSearch"`
	ComputerUse           wire.Raw   `json:"computerUse"`
	MCPServers            wire.Raw   `json:"mcpServers"`
	Retrieval             wire.Raw   `json:"retrieval"`
	EnterpriseWebSearch   wire.Raw   `json:"enterpriseWebSearch"`
	Extra                 wire.Extra `json:"-"`
}

// FunctionDeclaration is a function that the model may call. Parameters is
// Google's form of a schema, ParametersJSONSchema is JSON Schema; one is set.
type FunctionDeclaration struct {
	Name                 wire.Opt[string]    `json:"name"`
	Description          wire.Opt[wire.Text] `json:"description"`
	Parameters           wire.Raw            `json:"parameters"`
	ParametersJSONSchema wire.Raw            `json:"parametersJsonSchema"`
	Response             wire.Raw            `json:"response"`
	ResponseJSONSchema   wire.Raw            `json:"responseJsonSchema"`
	Extra                wire.Extra          `json:"-"`
}

// ToolConfig says how tools are used.
type ToolConfig struct {
	FunctionCallingConfig            wire.Opt[FunctionCallingConfig] `json:"functionCallingConfig"`
	RetrievalConfig                  wire.Raw                        `json:"retrievalConfig"`
	IncludeServerSideToolInvocations wire.Raw                        `json:"includeServerSideToolInvocations"`
	Extra                            wire.Extra                      `json:"-"`
}

// FunctionCallingConfig says which functions must, may or must not be called.
type FunctionCallingConfig struct {
	Mode                        wire.Opt[string]   `json:"mode"` // AUTO, ANY, NONE, VALIDATED
	AllowedFunctionNames        wire.Opt[[]string] `json:"allowedFunctionNames"`
	StreamFunctionCallArguments wire.Raw           `json:"streamFunctionCallArguments"`
	Extra                       wire.Extra         `json:"-"`
}

// GenerationConfig is how the answer is made and what it may look like.
type GenerationConfig struct {
	Temperature        wire.Opt[wire.Number]    `json:"temperature"`
	TopP               wire.Opt[wire.Number]    `json:"topP"`
	TopK               wire.Opt[wire.Number]    `json:"topK"`
	CandidateCount     wire.Opt[wire.Number]    `json:"candidateCount"`
	MaxOutputTokens    wire.Opt[wire.Number]    `json:"maxOutputTokens"`
	StopSequences      wire.Opt[[]string]       `json:"stopSequences"`
	Seed               wire.Opt[wire.Number]    `json:"seed"`
	PresencePenalty    wire.Opt[wire.Number]    `json:"presencePenalty"`
	FrequencyPenalty   wire.Opt[wire.Number]    `json:"frequencyPenalty"`
	ResponseLogprobs   wire.Opt[bool]           `json:"responseLogprobs"`
	Logprobs           wire.Opt[wire.Number]    `json:"logprobs"`
	ResponseMIMEType   wire.Opt[string]         `json:"responseMimeType"`
	ResponseSchema     wire.Raw                 `json:"responseSchema"`
	ResponseJSONSchema wire.Raw                 `json:"responseJsonSchema"`
	ResponseModalities wire.Opt[[]string]       `json:"responseModalities"`
	ThinkingConfig     wire.Opt[ThinkingConfig] `json:"thinkingConfig"`

	SpeechConfig               wire.Raw   `json:"speechConfig"`
	ImageConfig                wire.Raw   `json:"imageConfig"`
	MediaResolution            wire.Raw   `json:"mediaResolution"`
	AudioTimestamp             wire.Raw   `json:"audioTimestamp"`
	RoutingConfig              wire.Raw   `json:"routingConfig"`
	EnableEnhancedCivicAnswers wire.Raw   `json:"enableEnhancedCivicAnswers"`
	AudioTranscriptionConfig   wire.Raw   `json:"audioTranscriptionConfig"`
	ResponseFormat             wire.Raw   `json:"responseFormat"`
	TranslationConfig          wire.Raw   `json:"translationConfig"`
	Extra                      wire.Extra `json:"-"`
}

// ThinkingConfig is how much the model thinks. Budget and level exclude each
// other.
type ThinkingConfig struct {
	IncludeThoughts wire.Opt[bool]        `json:"includeThoughts"`
	ThinkingBudget  wire.Opt[wire.Number] `json:"thinkingBudget"`
	ThinkingLevel   wire.Opt[string]      `json:"thinkingLevel"` // MINIMAL, LOW, MEDIUM, HIGH
	Extra           wire.Extra            `json:"-"`
}

// Response is a whole answer, or what one event adds to it.
type Response struct {
	Candidates     wire.Opt[[]Candidate]    `json:"candidates"`
	PromptFeedback wire.Opt[PromptFeedback] `json:"promptFeedback"`
	UsageMetadata  wire.Opt[Usage]          `json:"usageMetadata"`
	ModelVersion   wire.Opt[string]         `json:"modelVersion"`
	ResponseID     wire.Opt[string]         `json:"responseId"`
	Extra          wire.Extra               `json:"-"`
}

// Candidate is one of the answers that were asked for.
type Candidate struct {
	Content      wire.Raw              `json:"content"`
	FinishReason wire.Opt[string]      `json:"finishReason"`
	Index        wire.Opt[wire.Number] `json:"index"`
	Extra        wire.Extra            `json:"-"`
}

// PromptFeedback says why a prompt was refused.
type PromptFeedback struct {
	BlockReason wire.Opt[string] `json:"blockReason"`
	Extra       wire.Extra       `json:"-"`
}

// Usage counts tokens. The prompt's count includes what was cached and excludes
// what tools added; the candidates' count excludes thoughts.
type Usage struct {
	PromptTokenCount        wire.Opt[wire.Number] `json:"promptTokenCount"`
	CandidatesTokenCount    wire.Opt[wire.Number] `json:"candidatesTokenCount"`
	TotalTokenCount         wire.Opt[wire.Number] `json:"totalTokenCount"`
	CachedContentTokenCount wire.Opt[wire.Number] `json:"cachedContentTokenCount"`
	ThoughtsTokenCount      wire.Opt[wire.Number] `json:"thoughtsTokenCount"`
	ToolUsePromptTokenCount wire.Opt[wire.Number] `json:"toolUsePromptTokenCount"`
	Extra                   wire.Extra            `json:"-"`
}

// CountRequest is the body of countTokens: contents, or a whole request.
type CountRequest struct {
	Contents               wire.Opt[List[Content]] `json:"contents"`
	GenerateContentRequest wire.Opt[Request]       `json:"generateContentRequest"`
	Extra                  wire.Extra              `json:"-"`
}
