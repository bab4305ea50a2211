package testrig

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/conform"
)

// Response is a response as a client received it.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error // the connection failed
}

// Outcome is a response decoded by a client of its dialect.
type Outcome struct {
	Text     string // the words in order
	Finished bool   // it has a finish reason
	Ended    bool   // the dialect's last event arrived, if it has one
	Error    string // the message of the error at its end
	Code     string // of that error
	Invalid  string // the first violation of the dialect
}

// Complete reports whether a client considers the response complete.
func (o Outcome) Complete() bool {
	return o.Finished && o.Ended && o.Error == "" && o.Invalid == ""
}

// MayPassForComplete reports whether some client may consider the response complete. It
// must be false for every truncated response of the gateway.
func (o Outcome) MayPassForComplete() bool { return o.Finished || o.Error == "" || o.Invalid != "" }

func (o Outcome) String() string {
	return fmt.Sprintf("text %q, finished %t, ended %t, error %q (%s), invalid %q", Clip(o.Text, 80), o.Finished, o.Ended, o.Error, o.Code, o.Invalid)
}

// Read decodes a response as conform's client of the dialect.
func (d Dialect) Read(r Response, stream bool) Outcome {
	w := d.wire()
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch {
	case r.Status != http.StatusOK:
		e, err := w.ReadError(r.Status, r.Body)
		if err != nil {
			return Outcome{Invalid: err.Error()}
		}
		return Outcome{Error: e.Message, Code: e.Code}
	case stream && media != w.Media():
		return Outcome{Invalid: "the response to a stream request has content type " + media}
	case stream:
		return outcome(w.ReadStream(r.Body))
	case media != JSONMedia:
		return Outcome{Invalid: "the content type is " + media}
	}
	return outcome(w.ReadBody(r.Body))
}

func outcome(r conform.Reading) Outcome {
	o := Outcome{Text: r.Text(), Finished: r.Stop != "", Ended: r.Ended}
	if r.Err != nil {
		o.Error, o.Code = r.Err.Message, r.Err.Code
	}
	if problems := r.All(); len(problems) > 0 {
		o.Invalid = problems[0]
	}
	return o
}
