package protocol

// Past is what was said before, for clients of a dialect in which they may name it in
// place of saying it again.
type Past interface {
	// Answer finds an earlier answer: what it answered, and its items.
	Answer(id string) (question []byte, items [][]byte, ok bool)

	// Item finds one item of an earlier answer.
	Item(id string) ([]byte, bool)
}

// Told is an answer as it can be named later.
type Told struct {
	ID    string
	Items []ToldItem
}

// ToldItem is one item of it.
type ToldItem struct {
	ID   string
	Text []byte
}
