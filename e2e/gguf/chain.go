// Package gguf writes the weights of a small language model that says what it was made
// to say. A real engine loads them and computes with them as with any others, so what
// the engine does with the text, such as to find a call of a tool in it, is real, and
// what the text will be is known.
package gguf

import (
	"fmt"
	"slices"
	"strings"
)

// Chain is a model that answers every question with the given pieces, one token each,
// and then ends. It has no memory: the next token depends on the one before alone, so
// no piece may stand in the answer twice.
//
// The architecture is Llama's. Attention and the feed-forward layer are all zero, which leaves
// a token's embedding as it is; it has one column for each token. The matrix at the end is
// then a table of successors.
func Chain(pieces []string) ([]byte, error) {
	v := newVocabulary()
	var answer []int
	for _, p := range pieces {
		id, isNew := v.add(strings.ReplaceAll(p, " ", blank), normal)
		if !isNew {
			return nil, fmt.Errorf("gguf: the piece %q is a token already, and each has one successor", p)
		}
		answer = append(answer, id)
	}
	if len(answer) == 0 {
		return nil, fmt.Errorf("gguf: no pieces, so there is nothing to say")
	}
	v.complete()

	follows := make(map[int]int)
	for i, id := range answer[:len(answer)-1] {
		follows[id] = answer[i+1]
	}
	for _, lineEnd := range []string{"\n", "<0x0A>"} { // a question ends in one of these
		follows[v.ids[lineEnd]] = answer[0]
	}
	f := &file{}
	describe(f, v)
	weigh(f, len(v.tokens), func(id int) int {
		if next, ok := follows[id]; ok {
			return next
		}
		return v.end
	})
	return f.bytes(), nil
}

const (
	// Attention does nothing, but an engine computes it, and most of the time that a long
	// question takes goes there. One head of a width that vector instructions like is cheap.
	head  = 32
	inner = 64     // width of the feed-forward layer, which does nothing
	reach = 131072 // tokens; a coding agent's first question has 20,000
	layer = "blk.0."
)

func describe(f *file, v *vocabulary) {
	width := uint32(len(v.tokens))
	f.fact("general.architecture", "llama")
	f.fact("general.name", "chain")
	f.fact("general.file_type", uint32(0))
	f.fact("llama.context_length", uint32(reach))
	f.fact("llama.embedding_length", width)
	f.fact("llama.vocab_size", width)
	f.fact("llama.block_count", uint32(1))
	f.fact("llama.feed_forward_length", uint32(inner))
	f.fact("llama.attention.head_count", uint32(1))
	f.fact("llama.attention.head_count_kv", uint32(1))
	f.fact("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	f.fact("llama.attention.key_length", uint32(head))
	f.fact("llama.attention.value_length", uint32(head))
	f.fact("llama.rope.dimension_count", uint32(head))
	f.fact("tokenizer.ggml.model", "llama")
	f.fact("tokenizer.ggml.pre", "default")
	f.fact("tokenizer.ggml.tokens", v.tokens)
	f.fact("tokenizer.ggml.scores", v.scores)
	f.fact("tokenizer.ggml.token_type", v.kinds)
	f.fact("tokenizer.ggml.unknown_token_id", uint32(v.unknown))
	f.fact("tokenizer.ggml.bos_token_id", uint32(v.begin))
	f.fact("tokenizer.ggml.eos_token_id", uint32(v.end))
	f.fact("tokenizer.ggml.add_bos_token", true)
	f.fact("tokenizer.ggml.add_eos_token", false)
	f.fact("tokenizer.ggml.add_space_prefix", false)
	f.fact("tokenizer.chat_template", template)
}

// template is ChatML; an engine may be given another that knows of tools.
const template = `{% for m in messages %}<|im_start|>{{ m['role'] }}
{{ m['content'] }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// weigh adds the tensors of a model in which next names each token's successor.
func weigh(f *file, width int, next func(id int) int) {
	same := matrix(width, width)
	table := matrix(width, width)
	for id := range width {
		same[id*width+id] = 1
		table[next(id)*width+id] = 1 // the row is the token that is rated
	}
	ones := slices.Repeat([]float32{1}, width)

	f.tensor(tensor{"token_embd.weight", width, width, same})
	f.tensor(tensor{"output_norm.weight", width, 0, ones})
	f.tensor(tensor{"output.weight", width, width, table})
	f.tensor(tensor{layer + "attn_norm.weight", width, 0, ones})
	f.tensor(tensor{layer + "ffn_norm.weight", width, 0, ones})
	f.tensor(tensor{layer + "attn_q.weight", width, head, matrix(width, head)})
	f.tensor(tensor{layer + "attn_k.weight", width, head, matrix(width, head)})
	f.tensor(tensor{layer + "attn_v.weight", width, head, matrix(width, head)})
	f.tensor(tensor{layer + "attn_output.weight", head, width, matrix(head, width)})
	f.tensor(tensor{layer + "ffn_gate.weight", width, inner, matrix(width, inner)})
	f.tensor(tensor{layer + "ffn_up.weight", width, inner, matrix(width, inner)})
	f.tensor(tensor{layer + "ffn_down.weight", inner, width, matrix(inner, width)})
}

func matrix(columns, rows int) []float32 { return make([]float32, columns*rows) }
