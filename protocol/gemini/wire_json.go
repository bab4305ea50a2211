package gemini

import "github.com/isogloss-gateway/isogloss/protocol/wire"

var (
	requestShape  = wire.Describe[Request]()
	responseShape = wire.Describe[Response]()
	partShape     = wire.Describe[Part]()
	feedbackShape = wire.Describe[PromptFeedback]()
	countShape    = wire.Describe[CountRequest]()
)

// UnmarshalJSON reads a request in either spelling of its names.
func (r *Request) UnmarshalJSON(b []byte) error {
	return requestShape.Unmarshal(requestSpelling().camel(b), r)
}

// MarshalJSON writes a request.
func (r Request) MarshalJSON() ([]byte, error) { return requestShape.Marshal(&r) }

// UnmarshalJSON reads an answer, or one event of it.
func (r *Response) UnmarshalJSON(b []byte) error { return responseShape.UnmarshalLenient(b, r) }

// MarshalJSON writes an answer.
func (r Response) MarshalJSON() ([]byte, error) { return responseShape.Marshal(&r) }

// UnmarshalJSON reads a countTokens request in either spelling of its names.
func (r *CountRequest) UnmarshalJSON(b []byte) error {
	return countShape.Unmarshal(countSpelling().camel(b), r)
}

// MarshalJSON writes a countTokens request.
func (r CountRequest) MarshalJSON() ([]byte, error) { return countShape.Marshal(&r) }
