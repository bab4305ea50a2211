package settings

import (
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Object is a mapping of any members, as JSON.
type Object []llm.Member

func (o *Object) decode(n *Node, f *File) {
	for _, c := range n.Children {
		*o = append(*o, llm.Member{Name: c.Key, Value: llm.Raw(f.appendJSON(nil, c))})
	}
}

// appendJSON appends a node as JSON.
func (f *File) appendJSON(to []byte, n *Node) []byte {
	switch n.Kind {
	case Mapping:
		return f.appendList(to, n, '{', '}')
	case Sequence:
		return f.appendList(to, n, '[', ']')
	case Scalar:
		if !n.plain {
			return appendQuote(to, n.Text)
		}
		if !json.Valid([]byte(n.Text)) {
			f.problems.add(n, "%q is not a number or a boolean of JSON; write it in quotes, or as JSON does", n.Written)
		}
		return append(to, n.Text...)
	default:
		return append(to, "null"...)
	}
}

func (f *File) appendList(to []byte, n *Node, start, end byte) []byte {
	to = append(to, start)
	for i, c := range n.Children {
		if i > 0 {
			to = append(to, ',')
		}
		if start == '{' {
			to = append(appendQuote(to, c.Key), ':')
		}
		to = f.appendJSON(to, c)
	}
	return append(to, end)
}

// appendQuote appends a text of a node, which is UTF-8.
func appendQuote(to []byte, text string) []byte {
	to, _ = jsontext.AppendQuote(to, text)
	return to
}
