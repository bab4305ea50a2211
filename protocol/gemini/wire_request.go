package gemini

import (
	"iter"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Request is the body of generateContent and streamGenerateContent.
type Request struct {
	Model             wire.Opt[string]           `json:"model"` // also in the path
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

// List is a list, or its only item without the brackets. Google accepts both.
type List[T any] struct {
	One  wire.Opt[T]            `wire:"object"`
	Many wire.Opt[wire.List[T]] `wire:"array"`
}

// All returns an iterator over the items of either form, as [wire.List.All] does.
func (l *List[T]) All() iter.Seq2[int, *T] {
	if one := l.One.Ptr(); one != nil {
		return func(yield func(int, *T) bool) { yield(0, one) }
	}
	return l.Many.Value().All()
}

func listOf[T any](items wire.List[T]) wire.Opt[List[T]] {
	return wire.Some(List[T]{Many: wire.Some(items)})
}

// Content is one message.
type Content struct {
	Role  wire.Opt[string]     `json:"role"` // user, model; absent means user
	Parts wire.Opt[List[Part]] `json:"parts"`
	Extra wire.Extra           `json:"-"`
}

// Part is one part of a message: one data member, and members that describe it.
type Part struct {
	Text             wire.Opt[wire.Text]        `json:"text"`
	InlineData       wire.Opt[Blob]             `json:"inlineData"`
	FileData         wire.Opt[FileData]         `json:"fileData"`
	FunctionCall     wire.Opt[FunctionCall]     `json:"functionCall"`
	FunctionResponse wire.Opt[FunctionResponse] `json:"functionResponse"`

	// Calls of the vendor's own tools and their output, which are kept unchanged.
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

// Blob is inline data.
type Blob struct {
	MIMEType wire.Opt[string] `json:"mimeType"`
	Data     wire.Opt[string] `json:"data"` // base64 of either alphabet
	Extra    wire.Extra       `json:"-"`
}

// FileData refers to data by its URI.
type FileData struct {
	MIMEType wire.Opt[string] `json:"mimeType"`
	FileURI  wire.Opt[string] `json:"fileUri"`
	Extra    wire.Extra       `json:"-"`
}

// FunctionCall is a model's call of a function.
type FunctionCall struct {
	ID    wire.Opt[string] `json:"id"`
	Name  wire.Opt[string] `json:"name"`
	Args  wire.Raw         `json:"args"`
	Extra wire.Extra       `json:"-"`
}

// FunctionResponse is the result of a function.
type FunctionResponse struct {
	ID       wire.Opt[string]                    `json:"id"`
	Name     wire.Opt[string]                    `json:"name"`
	Response wire.Raw                            `json:"response"`
	Parts    wire.Opt[wire.List[FunctionOutput]] `json:"parts"`
	Extra    wire.Extra                          `json:"-"`
}

// FunctionOutput is media in the result of a function.
type FunctionOutput struct {
	InlineData wire.Opt[Blob]     `json:"inlineData"`
	FileData   wire.Opt[FileData] `json:"fileData"`
	Extra      wire.Extra         `json:"-"`
}

// Tool is a list of functions, a tool that the vendor runs, or both.
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

// ToolConfig controls the use of tools.
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

// GenerationConfig holds the settings of generation and output.
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

// ThinkingConfig controls thinking. Budget and level exclude each other.
type ThinkingConfig struct {
	IncludeThoughts wire.Opt[bool]        `json:"includeThoughts"`
	ThinkingBudget  wire.Opt[wire.Number] `json:"thinkingBudget"`
	ThinkingLevel   wire.Opt[string]      `json:"thinkingLevel"` // MINIMAL, LOW, MEDIUM, HIGH
	Extra           wire.Extra            `json:"-"`
}

// CountRequest is the body of countTokens: contents, or a complete request.
type CountRequest struct {
	Contents               wire.Opt[List[Content]] `json:"contents"`
	GenerateContentRequest wire.Opt[Request]       `json:"generateContentRequest"`
	Extra                  wire.Extra              `json:"-"`
}
