// Package loss says what becomes of every field of the neutral model in every
// protocol: it arrives, it arrives under another name, something near it arrives,
// it is left out, or the request is refused. The table is data, for whoever wants
// to know before sending; the tests of this package hold the codecs to it.
//
// What an encoder reports about one request is an [llm.Report]; its codes are
// those of [Codes].
package loss

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Side is where a value stands: in what is asked or in what is answered.
type Side string

// The sides.
const (
	Request  Side = "request"
	Response Side = "response"
)

// Row says what becomes of a value in one protocol.
type Row struct {
	Side   Side
	Topic  string
	Fields []string      // paths in the neutral model: sampling.top_p, media.url
	When   string        // which values of the fields are meant; empty for all
	Target protocol.Name // the protocol that is written

	Verdict llm.Verdict
	Codes   []string // what the encoder reports; none where nothing is lost
	Wire    string   // the member that holds the value: messages[].content; "url" for the path
	Note    string   // for people
}

// Table lists all rows by topic, then by field, then by target.
func Table() []Row {
	var rows []Row
	for _, t := range topics() {
		for _, e := range t.entries {
			for i, c := range []cell{e.chat, e.responses, e.anthropic, e.gemini} {
				rows = append(rows, Row{
					Side: t.side, Topic: t.name, Fields: strings.Fields(e.fields), When: e.when, Target: protocol.Names()[i],
					Verdict: c.verdict, Codes: strings.Fields(c.code), Wire: c.wire, Note: c.note,
				})
			}
		}
	}
	return rows
}

// Find lists what becomes of a field in a protocol, one row for each kind of value
// that makes a difference.
func Find(side Side, field string, target protocol.Name) []Row {
	return slices.DeleteFunc(Table(), func(r Row) bool {
		return r.Side != side || r.Target != target || !slices.Contains(r.Fields, field)
	})
}

// topic is a group of rows that belong together.
type topic struct {
	name    string
	side    Side
	about   string
	entries []entry
}

// entry is what becomes of some values in the four protocols.
type entry struct {
	fields string // separated by blanks
	when   string

	chat, responses, anthropic, gemini cell
}

// cell is what becomes of a value in one protocol.
type cell struct {
	verdict          llm.Verdict
	code, wire, note string
}

func topics() []topic {
	return slices.Concat(conversationTopics(), blockTopics(), toolTopics(), settingTopics(), answerTopics())
}

// exact is a value that arrives as it is.
func exact(wire string) cell { return cell{verdict: llm.Exact, wire: wire} }

// form is something that is only about how the source spelled a value: where it
// is not carried, nothing of the meaning is lost.
func form(note string) cell { return cell{verdict: llm.Exact, note: note} }

// renamed is a value that arrives under another name or in another form.
func renamed(wire, note string) cell { return cell{verdict: llm.Renamed, wire: wire, note: note} }

// near is a value for which something like it arrives.
func near(code, wire, note string) cell {
	return cell{verdict: llm.Approximated, code: code, wire: wire, note: note}
}

// dropped is a value that does not arrive.
func dropped(code, note string) cell { return cell{verdict: llm.Dropped, code: code, note: note} }

// refused is a value for which a request is not sent.
func refused(code, note string) cell { return cell{verdict: llm.Rejected, code: code, note: note} }
