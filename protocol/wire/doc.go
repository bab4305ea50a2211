// Package wire reads and writes JSON objects without losing what it does not
// understand. The protocols describe their bodies as structs whose fields are
// [Opt], [Raw] or unions of those; a [Shape] decodes into such a struct and
// encodes it again:
//
//	type Usage struct {
//		Total wire.Opt[wire.Number] `json:"total_tokens"`
//		Extra wire.Extra            `json:"-"`
//	}
//
//	var usageShape = wire.Describe[Usage]()
//
//	func (u *Usage) UnmarshalJSON(b []byte) error { return usageShape.Unmarshal(b, u) }
//	func (u Usage) MarshalJSON() ([]byte, error)  { return usageShape.Marshal(&u) }
//
// What is promised of decoding and encoding again:
//
//   - members stay in the order they came in, members without a field included,
//     at every level;
//   - absent, null and zero are three different things;
//   - numbers keep their text, and so do the literals of [Text];
//   - a field that was changed is written at its member's old place, one that
//     was made absent disappears, one that was newly set follows the others;
//   - nothing is escaped for HTML, and the same value gives the same bytes.
//
// Plain string fields keep their characters but not the spelling of their
// escapes; use [Text] where that matters, which is wherever a string may be a
// fragment of a longer one.
//
// Names are compared case by case, a repeated name is an error, and so are
// nesting beyond [MaxDepth], text that is not UTF-8 and anything behind the
// value. Errors are of type [*Error] and point at the fault.
//
// # Unions
//
// A struct with `wire` tags instead of `json` tags is a union: its fields are
// the forms that one JSON value may take, told apart by the value's kind
// ("string", "number", "bool", "array", "object"; "any" takes the rest). It
// remembers the form that it came in.
//
//	type Stop struct {
//		One  wire.Opt[string]   `wire:"string"`
//		Many wire.Opt[[]string] `wire:"array"`
//	}
package wire
