// Package wire reads and writes JSON without losing unknown members, number text or
// the order of members. There are three ways to read a text:
//
//   - [Unmarshal] decodes it into a struct, and [Marshal] encodes the struct again.
//   - [IndexObject] locates the members of an object without decoding them. [Patch]
//     then changes some of them and keeps all other bytes.
//   - A [Scanner] reads it from front to back, for small messages that need speed.
//
// # Structs
//
// The protocols describe their bodies as structs whose fields are of type [Opt] or
// [Raw], or are unions of those:
//
//	type Usage struct {
//		Total wire.Opt[wire.Number] `json:"total_tokens"`
//		Extra wire.Extra            `json:"-"`
//	}
//
// Such a struct has no JSON methods: encoding/json does not know the order of its
// members and what is in Extra.
//
// Decoding a text and encoding it again has these properties:
//
//   - Members keep their order at every level, including members without a field.
//   - Absent, null and zero are different values.
//   - Numbers keep their text, and so do strings of type [Text].
//   - A changed field keeps the place of its member. A field that becomes absent is
//     left out. A field that becomes set is written after the other members.
//   - Nothing is escaped for HTML. The same value always gives the same bytes.
//
// Fields of type string keep their characters but not the form of their escapes. Use
// [Text] for a string that may be a fragment of a longer one.
//
// Decoding compares names exactly. It rejects duplicate names, nesting beyond
// [MaxDepth] (10,000 levels in responses), invalid UTF-8 and data after the value. Errors are of type [*Error] and
// contain a JSON pointer.
//
// # Unions
//
// A struct with `wire` tags instead of `json` tags is a union. Its fields are the
// forms that one JSON value may have, and the tags are the kinds of value that they
// accept: "string", "number", "bool", "array", "object", or "any" for all other
// kinds. Decoding sets one field, and encoding writes that field.
//
//	type Stop struct {
//		One  wire.Opt[string]   `wire:"string"`
//		Many wire.Opt[[]string] `wire:"array"`
//	}
package wire
