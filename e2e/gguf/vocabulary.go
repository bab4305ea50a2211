package gguf

import "fmt"

// Kinds of tokens, as SentencePiece numbers them.
const (
	normal  = 1
	unknown = 2
	control = 3
	unused  = 5
	oneByte = 6
)

// blank is how SentencePiece writes a space.
const blank = "▁"

// vocabulary has what any text can be written with; the pieces of an answer come on top.
type vocabulary struct {
	tokens []string
	scores []float32
	kinds  []int32
	ids    map[string]int

	unknown, begin, end int
}

func newVocabulary() *vocabulary {
	v := &vocabulary{ids: make(map[string]int)}
	v.unknown, _ = v.add("<unk>", unknown)
	v.begin, _ = v.add("<s>", control)
	v.add("</s>", control)
	for b := range 256 {
		v.add(fmt.Sprintf("<0x%02X>", b), oneByte)
	}
	v.add("<|im_start|>", control)
	v.end, _ = v.add("<|im_end|>", control)
	return v
}

// add tells the token's number and whether it is new.
func (v *vocabulary) add(token string, kind int32) (id int, isNew bool) {
	if id, ok := v.ids[token]; ok {
		return id, false
	}
	id = len(v.tokens)
	var score float32
	if kind == normal {
		score = -float32(id) // earlier ones are preferred
	}
	v.tokens = append(v.tokens, token)
	v.scores = append(v.scores, score)
	v.kinds = append(v.kinds, kind)
	v.ids[token] = id
	return id, true
}

// complete adds letters, so that not all text is single bytes, and then entries up to a size
// that suits the engine.
func (v *vocabulary) complete() {
	for _, c := range blank + "\nabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?:;'\"()-_/{}[]" {
		v.add(string(c), normal)
	}
	for len(v.tokens)%32 != 0 {
		v.add(fmt.Sprintf("<unused%d>", len(v.tokens)), unused)
	}
}
