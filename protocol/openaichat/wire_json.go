package openaichat

import "github.com/isogloss-gateway/isogloss/protocol/wire"

// The JSON methods of the wire types. They are what makes encoding/json keep
// everything; the shapes do the work.

var (
	requestShape                 = wire.Describe[Request]()
	stopShape                    = wire.Describe[Stop]()
	streamOptionsShape           = wire.Describe[StreamOptions]()
	responseFormatShape          = wire.Describe[ResponseFormat]()
	jsonSchemaShape              = wire.Describe[JSONSchema]()
	audioOptionsShape            = wire.Describe[AudioOptions]()
	voiceShape                   = wire.Describe[Voice]()
	referenceShape               = wire.Describe[Reference]()
	predictionShape              = wire.Describe[Prediction]()
	webSearchOptionsShape        = wire.Describe[WebSearchOptions]()
	userLocationShape            = wire.Describe[UserLocation]()
	locationShape                = wire.Describe[Location]()
	moderationOptionsShape       = wire.Describe[ModerationOptions]()
	moderationPolicyShape        = wire.Describe[ModerationPolicy]()
	moderationModeShape          = wire.Describe[ModerationMode]()
	promptCacheOptionsShape      = wire.Describe[PromptCacheOptions]()
	toolShape                    = wire.Describe[Tool]()
	functionShape                = wire.Describe[Function]()
	customToolShape              = wire.Describe[CustomTool]()
	customFormatShape            = wire.Describe[CustomFormat]()
	grammarShape                 = wire.Describe[Grammar]()
	toolChoiceShape              = wire.Describe[ToolChoice]()
	namedChoiceShape             = wire.Describe[NamedChoice]()
	namedShape                   = wire.Describe[Named]()
	allowedToolsShape            = wire.Describe[AllowedTools]()
	functionCallChoiceShape      = wire.Describe[FunctionCallChoice]()
	toolCallShape                = wire.Describe[ToolCall]()
	functionCallShape            = wire.Describe[FunctionCall]()
	customCallShape              = wire.Describe[CustomCall]()
	argumentsShape               = wire.Describe[Arguments]()
	messageShape                 = wire.Describe[Message]()
	contentShape                 = wire.Describe[Content]()
	partShape                    = wire.Describe[Part]()
	imageShape                   = wire.Describe[Image]()
	imageURLShape                = wire.Describe[ImageURL]()
	inputAudioShape              = wire.Describe[InputAudio]()
	fileShape                    = wire.Describe[File]()
	annotationShape              = wire.Describe[Annotation]()
	urlCitationShape             = wire.Describe[URLCitation]()
	audioShape                   = wire.Describe[Audio]()
	responseShape                = wire.Describe[Response]()
	choiceShape                  = wire.Describe[Choice]()
	logprobsShape                = wire.Describe[Logprobs]()
	tokenLogprobShape            = wire.Describe[TokenLogprob]()
	usageShape                   = wire.Describe[Usage]()
	promptTokensDetailsShape     = wire.Describe[PromptTokensDetails]()
	completionTokensDetailsShape = wire.Describe[CompletionTokensDetails]()
	moderationResultShape        = wire.Describe[ModerationResult]()
	moderationFindingsShape      = wire.Describe[ModerationFindings]()
	errorBodyShape               = wire.Describe[ErrorBody]()
	errorValueShape              = wire.Describe[ErrorValue]()
	errorObjectShape             = wire.Describe[ErrorObject]()
	errorCodeShape               = wire.Describe[ErrorCode]()
	chunkShape                   = wire.Describe[Chunk]()
	chunkChoiceShape             = wire.Describe[ChunkChoice]()
	deltaShape                   = wire.Describe[Delta]()
	toolCallDeltaShape           = wire.Describe[ToolCallDelta]()
)

// UnmarshalJSON reads r and keeps what has no field.
func (r *Request) UnmarshalJSON(b []byte) error { return requestShape.Unmarshal(b, r) }

// MarshalJSON writes r in the order that it was read in.
func (r Request) MarshalJSON() ([]byte, error) { return requestShape.Marshal(&r) }

// UnmarshalJSON reads s and keeps what has no field.
func (s *Stop) UnmarshalJSON(b []byte) error { return stopShape.Unmarshal(b, s) }

// MarshalJSON writes s in the order that it was read in.
func (s Stop) MarshalJSON() ([]byte, error) { return stopShape.Marshal(&s) }

// UnmarshalJSON reads s and keeps what has no field.
func (s *StreamOptions) UnmarshalJSON(b []byte) error { return streamOptionsShape.Unmarshal(b, s) }

// MarshalJSON writes s in the order that it was read in.
func (s StreamOptions) MarshalJSON() ([]byte, error) { return streamOptionsShape.Marshal(&s) }

// UnmarshalJSON reads r and keeps what has no field.
func (r *ResponseFormat) UnmarshalJSON(b []byte) error { return responseFormatShape.Unmarshal(b, r) }

// MarshalJSON writes r in the order that it was read in.
func (r ResponseFormat) MarshalJSON() ([]byte, error) { return responseFormatShape.Marshal(&r) }

// UnmarshalJSON reads j and keeps what has no field.
func (j *JSONSchema) UnmarshalJSON(b []byte) error { return jsonSchemaShape.Unmarshal(b, j) }

// MarshalJSON writes j in the order that it was read in.
func (j JSONSchema) MarshalJSON() ([]byte, error) { return jsonSchemaShape.Marshal(&j) }

// UnmarshalJSON reads a and keeps what has no field.
func (a *AudioOptions) UnmarshalJSON(b []byte) error { return audioOptionsShape.Unmarshal(b, a) }

// MarshalJSON writes a in the order that it was read in.
func (a AudioOptions) MarshalJSON() ([]byte, error) { return audioOptionsShape.Marshal(&a) }

// UnmarshalJSON reads v and keeps what has no field.
func (v *Voice) UnmarshalJSON(b []byte) error { return voiceShape.Unmarshal(b, v) }

// MarshalJSON writes v in the order that it was read in.
func (v Voice) MarshalJSON() ([]byte, error) { return voiceShape.Marshal(&v) }

// UnmarshalJSON reads r and keeps what has no field.
func (r *Reference) UnmarshalJSON(b []byte) error { return referenceShape.Unmarshal(b, r) }

// MarshalJSON writes r in the order that it was read in.
func (r Reference) MarshalJSON() ([]byte, error) { return referenceShape.Marshal(&r) }

// UnmarshalJSON reads p and keeps what has no field.
func (p *Prediction) UnmarshalJSON(b []byte) error { return predictionShape.Unmarshal(b, p) }

// MarshalJSON writes p in the order that it was read in.
func (p Prediction) MarshalJSON() ([]byte, error) { return predictionShape.Marshal(&p) }

// UnmarshalJSON reads w and keeps what has no field.
func (w *WebSearchOptions) UnmarshalJSON(b []byte) error {
	return webSearchOptionsShape.Unmarshal(b, w)
}

// MarshalJSON writes w in the order that it was read in.
func (w WebSearchOptions) MarshalJSON() ([]byte, error) { return webSearchOptionsShape.Marshal(&w) }

// UnmarshalJSON reads u and keeps what has no field.
func (u *UserLocation) UnmarshalJSON(b []byte) error { return userLocationShape.Unmarshal(b, u) }

// MarshalJSON writes u in the order that it was read in.
func (u UserLocation) MarshalJSON() ([]byte, error) { return userLocationShape.Marshal(&u) }

// UnmarshalJSON reads l and keeps what has no field.
func (l *Location) UnmarshalJSON(b []byte) error { return locationShape.Unmarshal(b, l) }

// MarshalJSON writes l in the order that it was read in.
func (l Location) MarshalJSON() ([]byte, error) { return locationShape.Marshal(&l) }

// UnmarshalJSON reads m and keeps what has no field.
func (m *ModerationOptions) UnmarshalJSON(b []byte) error {
	return moderationOptionsShape.Unmarshal(b, m)
}

// MarshalJSON writes m in the order that it was read in.
func (m ModerationOptions) MarshalJSON() ([]byte, error) { return moderationOptionsShape.Marshal(&m) }

// UnmarshalJSON reads m and keeps what has no field.
func (m *ModerationPolicy) UnmarshalJSON(b []byte) error {
	return moderationPolicyShape.Unmarshal(b, m)
}

// MarshalJSON writes m in the order that it was read in.
func (m ModerationPolicy) MarshalJSON() ([]byte, error) { return moderationPolicyShape.Marshal(&m) }

// UnmarshalJSON reads m and keeps what has no field.
func (m *ModerationMode) UnmarshalJSON(b []byte) error { return moderationModeShape.Unmarshal(b, m) }

// MarshalJSON writes m in the order that it was read in.
func (m ModerationMode) MarshalJSON() ([]byte, error) { return moderationModeShape.Marshal(&m) }

// UnmarshalJSON reads p and keeps what has no field.
func (p *PromptCacheOptions) UnmarshalJSON(b []byte) error {
	return promptCacheOptionsShape.Unmarshal(b, p)
}

// MarshalJSON writes p in the order that it was read in.
func (p PromptCacheOptions) MarshalJSON() ([]byte, error) { return promptCacheOptionsShape.Marshal(&p) }

// UnmarshalJSON reads t and keeps what has no field.
func (t *Tool) UnmarshalJSON(b []byte) error { return toolShape.Unmarshal(b, t) }

// MarshalJSON writes t in the order that it was read in.
func (t Tool) MarshalJSON() ([]byte, error) { return toolShape.Marshal(&t) }

// UnmarshalJSON reads f and keeps what has no field.
func (f *Function) UnmarshalJSON(b []byte) error { return functionShape.Unmarshal(b, f) }

// MarshalJSON writes f in the order that it was read in.
func (f Function) MarshalJSON() ([]byte, error) { return functionShape.Marshal(&f) }

// UnmarshalJSON reads c and keeps what has no field.
func (c *CustomTool) UnmarshalJSON(b []byte) error { return customToolShape.Unmarshal(b, c) }

// MarshalJSON writes c in the order that it was read in.
func (c CustomTool) MarshalJSON() ([]byte, error) { return customToolShape.Marshal(&c) }

// UnmarshalJSON reads c and keeps what has no field.
func (c *CustomFormat) UnmarshalJSON(b []byte) error { return customFormatShape.Unmarshal(b, c) }

// MarshalJSON writes c in the order that it was read in.
func (c CustomFormat) MarshalJSON() ([]byte, error) { return customFormatShape.Marshal(&c) }

// UnmarshalJSON reads g and keeps what has no field.
func (g *Grammar) UnmarshalJSON(b []byte) error { return grammarShape.Unmarshal(b, g) }

// MarshalJSON writes g in the order that it was read in.
func (g Grammar) MarshalJSON() ([]byte, error) { return grammarShape.Marshal(&g) }

// UnmarshalJSON reads t and keeps what has no field.
func (t *ToolChoice) UnmarshalJSON(b []byte) error { return toolChoiceShape.Unmarshal(b, t) }

// MarshalJSON writes t in the order that it was read in.
func (t ToolChoice) MarshalJSON() ([]byte, error) { return toolChoiceShape.Marshal(&t) }

// UnmarshalJSON reads n and keeps what has no field.
func (n *NamedChoice) UnmarshalJSON(b []byte) error { return namedChoiceShape.Unmarshal(b, n) }

// MarshalJSON writes n in the order that it was read in.
func (n NamedChoice) MarshalJSON() ([]byte, error) { return namedChoiceShape.Marshal(&n) }

// UnmarshalJSON reads n and keeps what has no field.
func (n *Named) UnmarshalJSON(b []byte) error { return namedShape.Unmarshal(b, n) }

// MarshalJSON writes n in the order that it was read in.
func (n Named) MarshalJSON() ([]byte, error) { return namedShape.Marshal(&n) }

// UnmarshalJSON reads a and keeps what has no field.
func (a *AllowedTools) UnmarshalJSON(b []byte) error { return allowedToolsShape.Unmarshal(b, a) }

// MarshalJSON writes a in the order that it was read in.
func (a AllowedTools) MarshalJSON() ([]byte, error) { return allowedToolsShape.Marshal(&a) }

// UnmarshalJSON reads f and keeps what has no field.
func (f *FunctionCallChoice) UnmarshalJSON(b []byte) error {
	return functionCallChoiceShape.Unmarshal(b, f)
}

// MarshalJSON writes f in the order that it was read in.
func (f FunctionCallChoice) MarshalJSON() ([]byte, error) { return functionCallChoiceShape.Marshal(&f) }

// UnmarshalJSON reads t and keeps what has no field.
func (t *ToolCall) UnmarshalJSON(b []byte) error { return toolCallShape.Unmarshal(b, t) }

// MarshalJSON writes t in the order that it was read in.
func (t ToolCall) MarshalJSON() ([]byte, error) { return toolCallShape.Marshal(&t) }

// UnmarshalJSON reads f and keeps what has no field.
func (f *FunctionCall) UnmarshalJSON(b []byte) error { return functionCallShape.Unmarshal(b, f) }

// MarshalJSON writes f in the order that it was read in.
func (f FunctionCall) MarshalJSON() ([]byte, error) { return functionCallShape.Marshal(&f) }

// UnmarshalJSON reads c and keeps what has no field.
func (c *CustomCall) UnmarshalJSON(b []byte) error { return customCallShape.Unmarshal(b, c) }

// MarshalJSON writes c in the order that it was read in.
func (c CustomCall) MarshalJSON() ([]byte, error) { return customCallShape.Marshal(&c) }

// UnmarshalJSON reads a and keeps what has no field.
func (a *Arguments) UnmarshalJSON(b []byte) error { return argumentsShape.Unmarshal(b, a) }

// MarshalJSON writes a in the order that it was read in.
func (a Arguments) MarshalJSON() ([]byte, error) { return argumentsShape.Marshal(&a) }

// UnmarshalJSON reads m and keeps what has no field.
func (m *Message) UnmarshalJSON(b []byte) error { return messageShape.Unmarshal(b, m) }

// MarshalJSON writes m in the order that it was read in.
func (m Message) MarshalJSON() ([]byte, error) { return messageShape.Marshal(&m) }

// UnmarshalJSON reads c and keeps what has no field.
func (c *Content) UnmarshalJSON(b []byte) error { return contentShape.Unmarshal(b, c) }

// MarshalJSON writes c in the order that it was read in.
func (c Content) MarshalJSON() ([]byte, error) { return contentShape.Marshal(&c) }

// UnmarshalJSON reads p and keeps what has no field.
func (p *Part) UnmarshalJSON(b []byte) error { return partShape.Unmarshal(b, p) }

// MarshalJSON writes p in the order that it was read in.
func (p Part) MarshalJSON() ([]byte, error) { return partShape.Marshal(&p) }

// UnmarshalJSON reads i and keeps what has no field.
func (i *Image) UnmarshalJSON(b []byte) error { return imageShape.Unmarshal(b, i) }

// MarshalJSON writes i in the order that it was read in.
func (i Image) MarshalJSON() ([]byte, error) { return imageShape.Marshal(&i) }

// UnmarshalJSON reads i and keeps what has no field.
func (i *ImageURL) UnmarshalJSON(b []byte) error { return imageURLShape.Unmarshal(b, i) }

// MarshalJSON writes i in the order that it was read in.
func (i ImageURL) MarshalJSON() ([]byte, error) { return imageURLShape.Marshal(&i) }

// UnmarshalJSON reads i and keeps what has no field.
func (i *InputAudio) UnmarshalJSON(b []byte) error { return inputAudioShape.Unmarshal(b, i) }

// MarshalJSON writes i in the order that it was read in.
func (i InputAudio) MarshalJSON() ([]byte, error) { return inputAudioShape.Marshal(&i) }

// UnmarshalJSON reads f and keeps what has no field.
func (f *File) UnmarshalJSON(b []byte) error { return fileShape.Unmarshal(b, f) }

// MarshalJSON writes f in the order that it was read in.
func (f File) MarshalJSON() ([]byte, error) { return fileShape.Marshal(&f) }

// UnmarshalJSON reads a and keeps what has no field.
func (a *Annotation) UnmarshalJSON(b []byte) error { return annotationShape.Unmarshal(b, a) }

// MarshalJSON writes a in the order that it was read in.
func (a Annotation) MarshalJSON() ([]byte, error) { return annotationShape.Marshal(&a) }

// UnmarshalJSON reads u and keeps what has no field.
func (u *URLCitation) UnmarshalJSON(b []byte) error { return urlCitationShape.Unmarshal(b, u) }

// MarshalJSON writes u in the order that it was read in.
func (u URLCitation) MarshalJSON() ([]byte, error) { return urlCitationShape.Marshal(&u) }

// UnmarshalJSON reads a and keeps what has no field.
func (a *Audio) UnmarshalJSON(b []byte) error { return audioShape.Unmarshal(b, a) }

// MarshalJSON writes a in the order that it was read in.
func (a Audio) MarshalJSON() ([]byte, error) { return audioShape.Marshal(&a) }

// UnmarshalJSON reads r and keeps what has no field.
func (r *Response) UnmarshalJSON(b []byte) error { return responseShape.Unmarshal(b, r) }

// MarshalJSON writes r in the order that it was read in.
func (r Response) MarshalJSON() ([]byte, error) { return responseShape.Marshal(&r) }

// UnmarshalJSON reads c and keeps what has no field.
func (c *Choice) UnmarshalJSON(b []byte) error { return choiceShape.Unmarshal(b, c) }

// MarshalJSON writes c in the order that it was read in.
func (c Choice) MarshalJSON() ([]byte, error) { return choiceShape.Marshal(&c) }

// UnmarshalJSON reads l and keeps what has no field.
func (l *Logprobs) UnmarshalJSON(b []byte) error { return logprobsShape.Unmarshal(b, l) }

// MarshalJSON writes l in the order that it was read in.
func (l Logprobs) MarshalJSON() ([]byte, error) { return logprobsShape.Marshal(&l) }

// UnmarshalJSON reads t and keeps what has no field.
func (t *TokenLogprob) UnmarshalJSON(b []byte) error { return tokenLogprobShape.Unmarshal(b, t) }

// MarshalJSON writes t in the order that it was read in.
func (t TokenLogprob) MarshalJSON() ([]byte, error) { return tokenLogprobShape.Marshal(&t) }

// UnmarshalJSON reads u and keeps what has no field.
func (u *Usage) UnmarshalJSON(b []byte) error { return usageShape.Unmarshal(b, u) }

// MarshalJSON writes u in the order that it was read in.
func (u Usage) MarshalJSON() ([]byte, error) { return usageShape.Marshal(&u) }

// UnmarshalJSON reads p and keeps what has no field.
func (p *PromptTokensDetails) UnmarshalJSON(b []byte) error {
	return promptTokensDetailsShape.Unmarshal(b, p)
}

// MarshalJSON writes p in the order that it was read in.
func (p PromptTokensDetails) MarshalJSON() ([]byte, error) {
	return promptTokensDetailsShape.Marshal(&p)
}

// UnmarshalJSON reads c and keeps what has no field.
func (c *CompletionTokensDetails) UnmarshalJSON(b []byte) error {
	return completionTokensDetailsShape.Unmarshal(b, c)
}

// MarshalJSON writes c in the order that it was read in.
func (c CompletionTokensDetails) MarshalJSON() ([]byte, error) {
	return completionTokensDetailsShape.Marshal(&c)
}

// UnmarshalJSON reads m and keeps what has no field.
func (m *ModerationResult) UnmarshalJSON(b []byte) error {
	return moderationResultShape.Unmarshal(b, m)
}

// MarshalJSON writes m in the order that it was read in.
func (m ModerationResult) MarshalJSON() ([]byte, error) { return moderationResultShape.Marshal(&m) }

// UnmarshalJSON reads m and keeps what has no field.
func (m *ModerationFindings) UnmarshalJSON(b []byte) error {
	return moderationFindingsShape.Unmarshal(b, m)
}

// MarshalJSON writes m in the order that it was read in.
func (m ModerationFindings) MarshalJSON() ([]byte, error) { return moderationFindingsShape.Marshal(&m) }

// UnmarshalJSON reads e and keeps what has no field.
func (e *ErrorBody) UnmarshalJSON(b []byte) error { return errorBodyShape.Unmarshal(b, e) }

// MarshalJSON writes e in the order that it was read in.
func (e ErrorBody) MarshalJSON() ([]byte, error) { return errorBodyShape.Marshal(&e) }

// UnmarshalJSON reads e and keeps what has no field.
func (e *ErrorValue) UnmarshalJSON(b []byte) error { return errorValueShape.Unmarshal(b, e) }

// MarshalJSON writes e in the order that it was read in.
func (e ErrorValue) MarshalJSON() ([]byte, error) { return errorValueShape.Marshal(&e) }

// UnmarshalJSON reads e and keeps what has no field.
func (e *ErrorObject) UnmarshalJSON(b []byte) error { return errorObjectShape.Unmarshal(b, e) }

// MarshalJSON writes e in the order that it was read in.
func (e ErrorObject) MarshalJSON() ([]byte, error) { return errorObjectShape.Marshal(&e) }

// UnmarshalJSON reads e and keeps what has no field.
func (e *ErrorCode) UnmarshalJSON(b []byte) error { return errorCodeShape.Unmarshal(b, e) }

// MarshalJSON writes e in the order that it was read in.
func (e ErrorCode) MarshalJSON() ([]byte, error) { return errorCodeShape.Marshal(&e) }

// UnmarshalJSON reads c and keeps what has no field.
func (c *Chunk) UnmarshalJSON(b []byte) error { return chunkShape.Unmarshal(b, c) }

// MarshalJSON writes c in the order that it was read in.
func (c Chunk) MarshalJSON() ([]byte, error) { return chunkShape.Marshal(&c) }

// UnmarshalJSON reads c and keeps what has no field.
func (c *ChunkChoice) UnmarshalJSON(b []byte) error { return chunkChoiceShape.Unmarshal(b, c) }

// MarshalJSON writes c in the order that it was read in.
func (c ChunkChoice) MarshalJSON() ([]byte, error) { return chunkChoiceShape.Marshal(&c) }

// UnmarshalJSON reads d and keeps what has no field.
func (d *Delta) UnmarshalJSON(b []byte) error { return deltaShape.Unmarshal(b, d) }

// MarshalJSON writes d in the order that it was read in.
func (d Delta) MarshalJSON() ([]byte, error) { return deltaShape.Marshal(&d) }

// UnmarshalJSON reads t and keeps what has no field.
func (t *ToolCallDelta) UnmarshalJSON(b []byte) error { return toolCallDeltaShape.Unmarshal(b, t) }

// MarshalJSON writes t in the order that it was read in.
func (t ToolCallDelta) MarshalJSON() ([]byte, error) { return toolCallDeltaShape.Marshal(&t) }
