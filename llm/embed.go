package llm

// EmbedRequest asks for the vectors of texts.
type EmbedRequest struct {
	Inputs     []string
	Dimensions *int64 // nil: as many as the model has
	Task       string // what the vectors are for, such as RETRIEVAL_QUERY
	Title      string // of the document that the texts are from
	User       string // the client's own user

	Batch  bool // the client sent a list, perhaps of one
	Base64 bool // the client wants packed 32-bit floats
}

// Embeddings are the vectors of texts, in the order of the texts.
type Embeddings struct {
	Model   string
	Vectors []Raw  // each one a JSON list of numbers, as the model wrote them
	Usage   *Usage // nil where nothing was counted
}
