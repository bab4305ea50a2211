package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/llm"
)

type sessionView struct {
	Expires time.Time `json:"expires" doc:"When the session ends at the latest. It ends with the key, with its secret, and at POST /logout."`
}

// sessionRoute is the operation with which the console trades an operator's key for a session. The session is a cookie,
// which no script can read.
func (s *server) sessionRoute() route {
	rt := handle("create-session", http.MethodPost, "/session", "Begin a session of the console with the key of this request: sets a cookie", func(context.Context, *call, *noInput) (*sessionView, error) {
		return nil, errors.New("the operation writes its response itself")
	})
	rt.raw = func(w http.ResponseWriter, r *http.Request, c *call, read func(any) *openapi.Problem) error {
		if s.Sessions == nil {
			return openapi.NewProblem(http.StatusNotImplemented, "not_available", "this gateway has no sessions")
		}
		if p := read(new(noInput)); p != nil {
			return p
		}
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		var cookie *http.Cookie
		var out sessionView
		err := s.change(ctx, c, change{object: "key:" + c.operator.ID, org: c.operator.Org}, func(ctx context.Context) (err error) {
			cookie, out.Expires, err = s.Sessions.BeginSession(ctx, r)
			var fault *llm.Error
			switch {
			case errors.As(err, &fault):
				return refused(fault)
			case err != nil:
				return unavailable(sessionStoreName, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		http.SetCookie(w, cookie)
		return writeJSON(w, rt.Status, out)
	}
	return rt
}

const sessionStoreName = "the store of sessions"
