package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/request/translation"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TranslatePath is the path of the operation that needs no store.
const TranslatePath = prefix + "/translate"

// maxTranslateBody is larger than usual: requests of agents have long histories.
const maxTranslateBody = 1 << 20

type translateIn struct {
	Body translateBody
}

type translateBody struct {
	Dialect string `json:"dialect" maxLength:"64" doc:"The dialect of the body."`
	Kind    string `json:"kind" enum:"request,response,stream"`
	Body    string `json:"body" doc:"The body, or the events of a stream."`
	Model   string `json:"model,omitempty" maxLength:"200" doc:"Name of the model at the upstream, whose rules apply. Absent: that of the request."`
}

type translationList struct {
	Translations []translationView `json:"translations" doc:"One for each of the other dialects."`
}

type translationView struct {
	Dialect string     `json:"dialect"`
	Text    string     `json:"text,omitempty" doc:"The translation. Absent: there is none."`
	Path    string     `json:"path,omitempty" doc:"Path of the request at the upstream, if the dialect has the model or the streaming in it."`
	Losses  []lossView `json:"losses" doc:"What the dialect cannot express."`
	Error   *faultView `json:"error,omitempty" doc:"Why there is no translation."`
}

// lossView is a llm.Loss.
type lossView struct {
	Path    string `json:"path" doc:"The field, such as messages[2].content[1]."`
	Verdict string `json:"verdict" enum:"approximated,dropped,refused"`
	Code    string `json:"code" doc:"Code for programs, such as temperature.clamped."`
	Note    string `json:"note" doc:"The loss in words."`
}

type faultView struct {
	Code    string `json:"code" doc:"Error code for programs."`
	Param   string `json:"param,omitempty" doc:"The field."`
	Message string `json:"message"`
}

// NewTranslate returns the operation translate alone, without operators. It is for a gateway without
// a store.
func NewTranslate(o Options) http.Handler {
	s := newServer(o)
	rt := s.translateRoute()
	rt.Describe()
	return s.protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := rt.checkBody(r); p != nil {
			p.Write(w)
			return
		}
		s.run(&rt, &call{route: rt.Name}, w, r)
	}))
}

func (s *server) translateRoute() route {
	rt := handle("translate", http.MethodPost, strings.TrimPrefix(TranslatePath, prefix), "Translate a body or a stream to the other dialects; sends and stores nothing", s.translate)
	rt.MaxBody = maxTranslateBody
	return rt
}

// translate does what `isogloss translate` does, for all dialects but the body's own.
func (s *server) translate(ctx context.Context, _ *call, in *translateIn) (*translationList, error) {
	names := translation.Dialects()
	if !slices.Contains(names, in.Body.Dialect) {
		return nil, invalid("body.dialect", "expected one of %s", strings.Join(names, ", "))
	}
	out := translationList{}
	for _, to := range names {
		if to == in.Body.Dialect {
			continue
		}
		if ctx.Err() != nil {
			return nil, openapi.NewProblem(http.StatusServiceUnavailable, "too_slow", "the translation took longer than %v; send less at once", storeTimeout)
		}
		t := translation.Translation{From: in.Body.Dialect, To: to, Kind: in.Body.Kind, Model: in.Body.Model, Mode: llm.Default}
		done, err := t.Run([]byte(in.Body.Body))
		out.Translations = append(out.Translations, viewTranslation(to, done, err))
	}
	return &out, nil
}

func viewTranslation(to string, t *translation.Translated, err error) translationView {
	// A body that is cut in the middle of a character must not fail the encoding of the result.
	v := translationView{Dialect: to, Text: strings.ToValidUTF8(string(t.Body), "\uFFFD"), Path: t.Path, Losses: []lossView{}}
	for _, l := range t.Losses {
		v.Losses = append(v.Losses, lossView{Path: l.Path, Verdict: string(l.Verdict), Code: l.Code, Note: l.Note})
	}
	var fault *llm.Error
	switch {
	case errors.As(err, &fault):
		v.Error = &faultView{Code: cmp.Or(fault.Code, string(fault.Kind)), Param: fault.Param, Message: fault.Message}
	case err != nil:
		v.Error = &faultView{Code: "invalid", Message: err.Error()}
	}
	return v
}
