package wire

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// FoundError has the parts of an error. A part that the body does not have is empty.
type FoundError struct {
	Message string
	Type    string // without a namespace
	Code    string // a word
	Number  string // a code that is a number
	Status  string // Google's word for the status
	Param   string
	Reason  string // in Google's details
	Delay   string // before a retry, in Google's details
}

// maxErrors limits how deep FindError looks for an error inside another error.
const maxErrors = 8

// FindError finds the parts of an error in all forms that servers use: the envelopes of the vendors, a list, a bare
// message, and an error whose message is the text of another error. The innermost error is the most specific, so its
// parts come first. A body that is not JSON has no parts: a proxy's HTML page is not shown to clients.
// ERR-03, ERR-04, ERR-13, ERR-17
func FindError(body Raw) (f FoundError) {
	f.find(body, 0)
	return f
}

// foundMembers are the members in which servers put errors.
type foundMembers struct {
	Error    jsontext.Value `json:"error"`
	Message  jsontext.Value `json:"message"`
	Capital  jsontext.Value `json:"Message"`
	Errors   jsontext.Value `json:"errors"`
	Detail   jsontext.Value `json:"detail"`
	Msg      jsontext.Value `json:"msg"`
	Original jsontext.Value `json:"originalMessage"`
	Type     jsontext.Value `json:"type"`
	AWSType  jsontext.Value `json:"__type"`
	Code     jsontext.Value `json:"code"`
	Status   jsontext.Value `json:"status"`
	Param    jsontext.Value `json:"param"`
	Details  jsontext.Value `json:"details"`
}

func (f *FoundError) find(raw Raw, depth int) {
	if depth > maxErrors {
		return
	}
	switch raw.Kind() {
	case '[':
		var items []jsontext.Value
		if json.Unmarshal(raw, &items, Lenient) == nil && len(items) > 0 {
			f.find(items[0], depth+1)
		}
	case '"':
		text := Scalar(raw)
		if inner := Raw(strings.TrimSpace(text)); inner.Kind() == '{' && inner.IsValid(Lenient) {
			f.find(inner, depth+1)
		} else if f.Message == "" {
			f.Message = text
		}
	case '{':
		var m foundMembers
		if json.Unmarshal(raw, &m, Lenient) != nil {
			return
		}
		f.readDetails(m.Details)
		order := [...]jsontext.Value{m.Error, m.Message, m.Capital, m.Errors, m.Detail, m.Msg, m.Original}
		if m.Error.Kind() == '"' { // a bare word says less than a message beside it
			order[0], order[1], order[2] = m.Message, m.Capital, m.Error
		}
		for _, v := range order {
			f.find(v, depth+1)
		}
		for _, v := range []jsontext.Value{m.AWSType, m.Type} {
			typ := Scalar(v)
			if typ = typ[strings.LastIndexByte(typ, '#')+1:]; typ != "error" {
				set(&f.Type, typ)
			}
		}
		f.setWord(&f.Code, m.Code)
		f.setWord(&f.Status, m.Status)
		set(&f.Param, Scalar(m.Param))
	default: // numbers and other values hold no message
	}
}

// readDetails reads Anthropic's object and Google's list of details.
func (f *FoundError) readDetails(raw Raw) {
	var object struct {
		Code jsontext.Value `json:"error_code"`
	}
	var list []struct {
		Reason string `json:"reason"`
		Delay  string `json:"retryDelay"`
	}
	switch raw.Kind() {
	case '{':
		_ = json.Unmarshal(raw, &object, Lenient) // details may be anything
		f.setWord(&f.Code, object.Code)
	case '[':
		_ = json.Unmarshal(raw, &list, Lenient)
		for _, d := range list {
			set(&f.Reason, d.Reason)
			set(&f.Delay, d.Delay)
		}
	}
}

// setWord sets a part that is a word, or else Number.
func (f *FoundError) setWord(to *string, v Raw) {
	text := Scalar(v)
	if _, err := strconv.Atoi(text); err == nil {
		to = &f.Number
	}
	set(to, text)
}

// HTTPStatus returns Number if it is the HTTP status of an error, else 0.
func (f FoundError) HTTPStatus() int {
	if n, err := strconv.Atoi(f.Number); err == nil && n >= 400 && n < 600 {
		return n
	}
	return 0
}

func set(to *string, text string) {
	if *to == "" {
		*to = text
	}
}
