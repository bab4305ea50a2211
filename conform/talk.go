package conform

// Ask is what a client asks, in no vendor's form.
type Ask struct {
	Turns       []Turn
	Tools       []Tool
	Choice      string // auto, none, required or the name of a tool; empty is unset
	Serial      bool   // at most one call at a time
	Max         string
	Temperature string
	TopP        string
	Stop        []string
	Format      *Format
	Reasoning   string // low, medium, high; read back as any word that is not empty
}

// Turn is one speaker's contribution.
type Turn struct {
	Role   string // system, user, assistant, tool
	Pieces []Piece
	echo   any // an assistant's turn as the client got it, in the client's dialect
}

// Kinds of pieces.
const (
	kindText    = "text"
	kindThink   = "think"
	kindRefusal = "refusal"
	kindImage   = "image"
	kindCall    = "call"
	kindResult  = "result"
)

// Piece is one block of a turn or of an answer.
type Piece struct {
	Kind   string
	Text   string  // text, think, refusal, the text of a result
	Sig    string  // what seals reasoning: a signature, encrypted content
	ID     string  // of a call, or of the call that a result answers
	Name   string  // of a call
	Args   string  // of a call, JSON
	Image  Image   // of an image
	Images []Image // of a result
	Failed bool    // of a result
	Cites  []Cite  // of a text
	number int     // of a call, or of the call that a result answers, from 1
}

// Image is an image by value.
type Image struct{ Type, Data string }

// Cite is a source of a text.
type Cite struct {
	URL, Title string
	span       string // the text that is backed, as the reader found it
}

// Tool is a function that the client offers.
type Tool struct{ Name, About, Schema string }

// Format is a schema that the answer must follow.
type Format struct{ Name, Schema string }

// Reply is what an upstream answers, in no vendor's form.
type Reply struct {
	Pieces []Piece
	Stop   string // end, tool, length, filter, sequence
	Match  string // the stop sequence that was hit
	Usage  *Usage
	Fault  *Fault // instead of an answer, or after the pieces where breaks says so
	breaks string // "", error, cut, reset, hold: how the answer breaks off after the pieces
	weave  bool   // fragments of parallel calls take turns
	want   wishes // what the request asked the upstream to give
	model  string
}

// wishes are what an upstream gives only to those who ask for it.
type wishes struct{ usage, sealed bool }

// Usage counts tokens: In includes Cached and Written, Out includes Think.
type Usage struct{ In, Cached, Written, Out, Think int }

// Fault is an error of any dialect.
type Fault struct {
	Kind    string
	Status  int // 0 means the dialect's own for this kind
	Message string
	Retry   string // seconds of Retry-After
	detail  string // type, code and parameter, for a look at what it names
}

// Seen is an answer as a strict client of one dialect sees it.
type Seen struct {
	Pieces   []Piece
	Stop     string
	Match    string
	Usage    *Usage
	Fault    *Fault // inside a stream
	Ended    bool   // the dialect's own proof of a complete answer was there
	Problems []string
	Echo     any // the assistant's turn in the dialect's own form, to be sent back
}

// heard is a request as a strict service of one dialect reads it.
type heard struct {
	Ask
	stream   bool
	want     wishes
	model    string
	problems []string // what the vendor would refuse
}

func (r Reply) calls() []Piece    { return ofKind(r.Pieces, kindCall) }
func (s Seen) calls() []Piece     { return ofKind(s.Pieces, kindCall) }
func (r Reply) has(k string) bool { return len(ofKind(r.Pieces, k)) > 0 }

func ofKind(list []Piece, kind string) []Piece {
	var out []Piece
	for _, p := range list {
		if p.Kind == kind {
			out = append(out, p)
		}
	}
	return out
}

// joined is the text of all pieces of the kinds, one after the other.
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
