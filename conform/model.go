package conform

// Request is a client request in neutral form.
type Request struct {
	Turns       []Turn
	Tools       []Tool
	Choice      string // auto, none, required or the name of a tool; empty if unset
	Serial      bool   // at most one call at a time
	Max         string
	Temperature string
	TopP        string
	Stop        []string
	Format      *Format
	Reasoning   string // low, medium or high; any other word if a codec has read it

	TopK      string
	Seed      string
	Frequency string
	Presence  string
	Choices   string // the number of responses, if more than one
	User      string // the id of the end user
}

// Turn is one message of the conversation.
type Turn struct {
	Role      string // system, user, assistant, tool
	Developer bool   // system text in the role developer
	Pieces    []Piece
	echo      any // the assistant's turn as the client received it, in its dialect
}

// Kinds of pieces.
const (
	kindText     = "text"
	kindThink    = "think"
	kindRefusal  = "refusal"
	kindImage    = "image"
	kindDocument = "document"
	kindCall     = "call"
	kindResult   = "result"
)

// Piece is one block of a turn or of a response.
type Piece struct {
	Kind     string
	Text     string   // text, think, refusal, the text of a result
	Sig      string   // the signature or the encrypted content of reasoning
	ID       string   // of a call or of the call of a result
	Name     string   // of a call, or the file name of a document
	Args     string   // of a call, JSON
	Image    Image    // of an image or a document
	Images   []Image  // of a result
	Failed   bool     // of a result
	Missing  bool     // of a result: it has no content
	Redacted bool     // of reasoning: it has only a seal
	Custom   bool     // of a call: Args is any text
	Search   bool     // of a call: it searches for tools, which only Responses has
	Space    string   // of a call: the namespace of its tool, which only Responses has
	Parts    []string // Text or Args, in the fragments of a stream
	Cache    bool     // the prompt is cached up to here
	Cites    []Cite   // of a text
	split    bool     // of a result: the text is in two parts
	number   int      // of a call or of the call of a result, from 1
}

// Image is an image or a document as base64. Data is the URL if Type is empty.
type Image struct{ Type, Data string }

// Cite is a source of a text.
type Cite struct {
	URL, Title string
	span       string // the text that the source supports
}

// Tool is a function that the client offers.
type Tool struct {
	Name, About, Schema string
	Strict              bool   // calls follow the schema
	Cache               bool   // the prompt is cached up to here
	Custom              bool   // the arguments are any text
	Space               string // the namespace of the tool, which only Responses has
}

// Format is the schema of structured output.
type Format struct {
	Name, Schema string
	Strict       bool
}

// Response is an upstream response in neutral form.
type Response struct {
	Pieces     []Piece
	Stop       string // end, tool, length, filter, sequence
	Match      string // the stop sequence that was hit
	Usage      *Usage
	Err        *APIError  // the whole response, or the end of a stream if breaks is set
	breaks     string     // how a response breaks off after the pieces: error, cut, reset or hold
	interleave bool       // fragments of parallel calls alternate
	grain      []int      // sizes of fragments in characters; a default if empty
	others     []Response // further choices
	index      int        // of the choice
	options    options    // the options of the request
	model      string
}

// options are parts of a response that an upstream sends only on request.
type options struct{ usage, sealed bool }

// Usage counts tokens: In includes Cached and Written, Out includes Think.
type Usage struct{ In, Cached, Written, Out, Think int }

// APIError is an error response in neutral form.
type APIError struct {
	Kind    string
	Status  int // 0 for the dialect's status of the kind
	Message string
	Code    string // of OpenAI's dialects
	Retry   string // seconds of Retry-After
	detail  string // the type, code and parameter
}

// Reading is a response that a strict client has read. Problems has the violations of the
// protocol. Values has wrong values that a gateway may have copied: usage that does not add
// up, sources without their spans, empty ids.
type Reading struct {
	Pieces   []Piece
	Stop     string
	Match    string
	Usage    *Usage
	Err      *APIError // inside a stream
	Ended    bool      // the response has the dialect's end marker
	Problems problemList
	Values   problemList
	Echo     any       // the assistant's turn in the client's dialect, for the next request
	others   []Reading // further choices
	legacy   bool      // a call in the form function_call
}

// Received is a request that a strict upstream has read.
type Received struct {
	Request
	Stream   bool
	Counts   bool // it asks only for the number of tokens
	Model    string
	Problems problemList // what the vendor would reject
	options  options
}

func (r Response) calls() []Piece    { return ofKind(r.Pieces, kindCall) }
func (s Reading) calls() []Piece     { return ofKind(s.Pieces, kindCall) }
func (r Response) has(k string) bool { return len(ofKind(r.Pieces, k)) > 0 }

func ofKind(list []Piece, kind string) []Piece {
	var out []Piece
	for _, p := range list {
		if p.Kind == kind {
			out = append(out, p)
		}
	}
	return out
}

// joined returns the concatenated text of all pieces of the kinds.
func joined(list []Piece, kinds ...string) string {
	s := ""
	for _, p := range list {
		for _, k := range kinds {
			if p.Kind == k {
				s += p.Text
			}
		}
	}
	return s
}
