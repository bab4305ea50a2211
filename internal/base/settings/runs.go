package settings

import (
	"slices"

	"github.com/goccy/go-yaml/token"
)

// The YAML library parses a block mapping recursively and copies the list of entries
// at every step: 10,000 models take half a second and 100,000 take a minute. Its lexer
// is linear. The tokens are therefore split at top-level keys, and below them at
// entries, and parsed piece by piece, which bounds time and stack depth.

const (
	entriesPerRun = 128
	maxPiece      = 50_000 // tokens
	maxFlowDepth  = 64     // brackets within brackets
	maxIndent     = 256    // column where a block may begin, which bounds their nesting
)

// tokens drops comments and document markers and rejects unsupported syntax.
func (t *tree) tokens(all token.Tokens) token.Tokens {
	out := make(token.Tokens, 0, len(all))
	depth := 0
	for _, tk := range all {
		tk.Value = unshieldVariables(tk.Value)
		switch tk.Type {
		case token.InvalidType:
			t.problem(tk, "is not YAML: %s", tk.Error)
			return nil
		case token.CommentType:
			continue
		case token.DocumentHeaderType, token.DocumentEndType:
			if len(out) > 0 && tk.Next != nil || tk.Next != nil && tk.Next.Position.Line == tk.Position.Line {
				t.problem(tk, "begins a second YAML document; write one, and nothing beside \"---\"")
				return nil
			}
			continue
		case token.DirectiveType:
			t.problem(tk, "is a YAML directive; remove it")
			return nil
		default:
			depth += nesting(tk)
		}
		if depth > maxFlowDepth || depth <= 0 && tk.Position.Column > maxIndent && opensBlock(tk) {
			t.problem(tk, "is nested deeper than any setting; take brackets or indentation out")
			return nil
		}
		out = append(out, tk)
	}
	return out
}

// nesting returns the change of bracket depth by a token.
func nesting(tk *token.Token) int {
	switch tk.Type {
	case token.SequenceStartType, token.MappingStartType:
		return 1
	case token.SequenceEndType, token.MappingEndType:
		return -1
	default:
		return 0
	}
}

func opensBlock(tk *token.Token) bool {
	if tk.Type == token.SequenceEntryType || tk.Type == token.MappingKeyType {
		return true
	}
	return tk.Next != nil && tk.Next.Type == token.MappingValueType
}

// entries splits the tokens of a block mapping at its entries. A mapping in braces is
// one piece.
func entries(tokens token.Tokens) []token.Tokens {
	if len(tokens) == 0 {
		return nil
	}
	var out []token.Tokens
	column, start, depth := tokens[0].Position.Column, 0, 0
	for i, tk := range tokens {
		if i > 0 && depth == 0 && tk.Position.Column == column && beginsEntry(tokens[i-1], tk) {
			out = append(out, tokens[start:i])
			start = i
		}
		depth += nesting(tk)
	}
	return append(out, tokens[start:])
}

// beginsEntry reports whether a token in the column of a mapping's keys is a key: the
// first token on its line, and neither the dash of a list nor the text of a block
// scalar.
func beginsEntry(before, tk *token.Token) bool {
	return tk.Position.Line > before.Position.Line &&
		tk.Type != token.SequenceEntryType &&
		before.Type != token.LiteralType && before.Type != token.FoldedType
}

// runs splits one entry whose value is an indented block mapping into its key
// and pieces of its value. For any other entry the key is nil.
func runs(tokens token.Tokens) (*token.Token, []token.Tokens) {
	if len(tokens) < 4 || tokens[1].Type != token.MappingValueType || tokens[0].Type == token.MergeKeyType {
		return nil, nil
	}
	key, first := tokens[0], tokens[2]
	if first.Position.Line == key.Position.Line || first.Position.Column <= key.Position.Column ||
		first.Type == token.SequenceEntryType || first.Type == token.SequenceStartType || first.Type == token.MappingStartType {
		return nil, nil
	}
	// A single scalar on the next line is not a mapping.
	if !slices.ContainsFunc(tokens[2:], func(tk *token.Token) bool { return tk.Type == token.MappingValueType }) {
		return nil, nil
	}
	var parts []token.Tokens
	each := entries(tokens[2:])
	for run := range slices.Chunk(each, entriesPerRun) {
		var part token.Tokens
		for _, e := range run {
			part = append(part, e...)
		}
		parts = append(parts, part)
	}
	return key, parts
}
