package export

import (
	"context"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/names"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

const (
	pageRows     = 1000             // rows that are read at once
	pageTimeout  = 5 * time.Second  // of the store, for them
	writeTimeout = 30 * time.Second // of a client that does not read
)

// Ledger has the rows of requests.
type Ledger interface {
	Rows(ctx context.Context, q store.RowQuery) ([]usage.Row, error)
}

// Requests writes all requests of a query to a client. An error means that nothing was written.
func Requests(w http.ResponseWriter, r *http.Request, format string, ledger Ledger, q store.RowQuery, reader names.Reader) error {
	q.Limit = pageRows
	return serve(w, r, "requests", format, func(ctx context.Context) (out []Request, err error) {
		if q.Limit == 0 {
			return nil, nil
		}
		rows, err := ledger.Rows(ctx, q)
		for i := range rows {
			out = append(out, RequestOf(&rows[i]))
		}
		names.Set(ctx, reader, out, func(r *Request) names.Of {
			return names.Of{Key: r.Key, Org: r.Org, Team: r.Team, KeyName: &r.KeyName, OrgName: &r.OrgName, TeamName: &r.TeamName}
		})
		if len(rows) < q.Limit {
			q.Limit = 0 // this was the last page
		} else {
			q.Before = &store.RowMark{Began: rows[len(rows)-1].Began, ID: rows[len(rows)-1].ID}
		}
		return out, err
	})
}

// Sums writes sums to a client.
func Sums(w http.ResponseWriter, r *http.Request, format string, sums []store.Sum, reader names.Reader) error {
	return serve(w, r, "usage", format, func(ctx context.Context) (out []Sum, err error) {
		for i := range sums {
			out = append(out, SumOf(&sums[i]))
		}
		names.Set(ctx, reader, out, func(s *Sum) names.Of {
			return names.Of{Key: s.Key, Org: s.Org, Team: s.Team, KeyName: &s.KeyName, OrgName: &s.OrgName, TeamName: &s.TeamName}
		})
		sums = nil
		return out, nil
	})
}

// serve writes pages of rows until one is empty. It reads the first one before it writes anything. An error
// after that ends the connection, so that the client knows that the file is not complete.
func serve[T any](w http.ResponseWriter, r *http.Request, name, format string, next func(ctx context.Context) ([]T, error)) error {
	page := func() ([]T, error) {
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		return next(ctx)
	}
	rows, err := page()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", Media(format))
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+"."+format+`"`)
	out := New[T](format, w)
	for err == nil && len(rows) > 0 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // a writer without a connection has none
		if err = out.Write(rows); err == nil {
			rows, err = page()
		}
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // the connection is used again
	return nil
}
