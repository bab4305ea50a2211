package relay

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Bounds on what a request body may look like. Real bodies stay far below them;
// a body above them costs a parser more than it is worth.
const (
	maxDepth   = 64
	maxMembers = 512
)

// The duplicate check is the decoder's own, at every level. Escaped lone
// surrogates are let through, as they always were by the servers that we stand
// in front of; bytes that are not UTF-8 are refused before the decoder runs.
var scanOptions = jsontext.AllowInvalidUTF8(true)

// span is a range of bytes in a body.
type span struct{ start, end int }

// member is one member of an object.
type member struct {
	name   string
	nameAt span // the quoted name
	at     span // the value
}

// object is an index of a JSON object's members. It points into the text and
// copies only the names. All spans are in the coordinates of the whole body.
type object struct {
	body    []byte
	members []member
	end     int // where a further member would be written
}

// index reads the object that stands at a place in a body. Names that differ
// from one of acted only in case are refused: some servers fold case, and then
// policy would see one model and the upstream another.
func index(body []byte, at span, acted []string) (object, *llm.Error) {
	if o, ok := quickIndex(body, at, acted); ok {
		return o, nil
	}
	return slowIndex(body, at, acted)
}

// slowIndex takes what the scanner gave up on and says what is wrong with it.
func slowIndex(body []byte, at span, acted []string) (object, *llm.Error) {
	o := object{body: body}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body[at.start:at.end:at.end]), scanOptions)
	if dec.PeekKind() != '{' {
		return o, badJSON("the body is not a JSON object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return o, syntax(err)
	}
	o.end = at.start + int(dec.InputOffset())
	for dec.PeekKind() != '}' {
		if err := o.next(dec, at.start, acted); err != nil {
			return o, err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return o, syntax(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return o, badJSON("there is data after the JSON object")
	}
	return o, nil
}

// next indexes one member. The decoder's offsets count from base.
func (o *object) next(dec *jsontext.Decoder, base int, acted []string) *llm.Error {
	if len(o.members) == maxMembers {
		return badJSON("the JSON object has more than " + strconv.Itoa(maxMembers) + " members")
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return syntax(err)
	}
	m := member{name: tok.String()}
	m.nameAt.start = o.end + bytes.IndexByte(o.body[o.end:], '"')
	m.nameAt.end = base + int(dec.InputOffset())
	m.at.start = m.nameAt.end + valueOffset(o.body[m.nameAt.end:])
	if err := skip(dec); err != nil {
		return err
	}
	m.at.end = base + int(dec.InputOffset())
	o.end = m.at.end
	o.members = append(o.members, m)
	if v := variant(m.name, acted); v != "" {
		return &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Param: v,
			Message: "the body has a member that differs from \"" + v + "\" only in case; write \"" + v + "\""}
	}
	return nil
}

// valueOffset is where the value begins in what follows a member's name.
func valueOffset(b []byte) int {
	i := 0
	for i < len(b) && (b[i] == ':' || b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skip passes over one value, token by token, because only so the depth shows.
func skip(dec *jsontext.Decoder) *llm.Error {
	top := dec.StackDepth()
	for {
		if _, err := dec.ReadToken(); err != nil {
			return syntax(err)
		}
		switch depth := dec.StackDepth(); {
		case depth > maxDepth:
			return badJSON("the JSON is nested more than " + strconv.Itoa(maxDepth) + " levels deep")
		case depth == top:
			return nil
		}
	}
}

// variant returns the acted-on name that a name is a case variant of.
func variant(name string, acted []string) string {
	if strings.IndexFunc(name, func(r rune) bool { return r < 'a' && r != '_' || r > 'z' }) < 0 {
		return "" // plain lower case can only be the name itself
	}
	for _, a := range acted {
		if name != a && strings.EqualFold(name, a) {
			return a
		}
	}
	return ""
}

// find returns the member of a name.
func (o *object) find(name string) (member, bool) {
	i := slices.IndexFunc(o.members, func(m member) bool { return m.name == name })
	if i < 0 {
		return member{}, false
	}
	return o.members[i], true
}

// raw is the text of a member's value; null and absent are both nil.
func (o *object) raw(name string) jsontext.Value {
	m, ok := o.find(name)
	if !ok {
		return nil
	}
	v := jsontext.Value(o.body[m.at.start:m.at.end])
	if v.Kind() == 'n' {
		return nil
	}
	return v
}

func badJSON(message string) *llm.Error {
	return &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_json", Message: message}
}

// syntax describes a syntax error by its place. The library's own text quotes the
// input, and an error message ends up in a log.
func syntax(err error) *llm.Error {
	var se *jsontext.SyntacticError
	if !errors.As(err, &se) {
		return badJSON("the body is not complete JSON")
	}
	at := " at byte " + strconv.FormatInt(se.ByteOffset, 10)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		e := badJSON("a JSON object has the same name twice" + at)
		// Only a name of ours is told: any other may be somebody's secret.
		if name := se.JSONPointer.LastToken(); slices.Contains(actedOn, name) {
			e.Param, e.Message = name, "\""+name+"\" stands twice in the body"+at
		}
		return e
	}
	return badJSON("the body is not valid JSON" + at)
}
