package admin

import (
	"context"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/api/export"
	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
)

// format is the form of a result.
type format struct {
	Format string `query:"format" enum:"json,csv,parquet" doc:"Form of the result. csv and parquet are a file with everything that matches, without pages. Default: json."`
}

func (f *format) file() bool { return f.Format == export.CSV || f.Format == export.Parquet }

// exported makes a route whose result is also to be had as a file.
func exported[I any, P interface {
	*I
	file() bool
}](s *server, rt route, write func(w http.ResponseWriter, r *http.Request, c *call, in *I) error) route {
	rt.More = []string{"text/csv", export.Media(export.Parquet)}
	run := rt.run
	rt.raw = func(w http.ResponseWriter, r *http.Request, c *call, read func(any) *openapi.Problem) error {
		in := new(I)
		if p := read(in); p != nil {
			return p
		}
		if !P(in).file() {
			out, err := run(r.Context(), c, func(to any) *openapi.Problem { *to.(*I) = *in; return nil }) //nolint:forcetypeassert // the input of the route
			if err != nil {
				return err
			}
			return writeJSON(w, rt.Status, out)
		}
		if !s.exports.Enter(c.operator.ID, maxRuns) {
			p := openapi.NewProblem(http.StatusTooManyRequests, "too_many_exports", "%d of your exports are running; wait until one has ended, or stop one", maxRuns)
			p.Retry = retryAfter
			return p
		}
		defer s.exports.Leave(c.operator.ID)
		return write(w, r, c, in)
	}
	return rt
}

func (s *server) exportRequests(w http.ResponseWriter, r *http.Request, c *call, in *listRequestsIn) error {
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	if err := s.normalize(ctx, c, &in.filter); err != nil {
		return err
	}
	if in.After != "" {
		return invalid("query.after", "a file has no pages; leave it out")
	}
	return wrapLedger(export.Requests(w, r, in.Format, s.Ledger, in.rowQuery(nil), s.names()))
}

func (s *server) exportUsage(w http.ResponseWriter, r *http.Request, c *call, in *usageIn) error {
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	sums, err := s.sumUsage(ctx, c, in)
	if err != nil {
		return err
	}
	return wrapLedger(export.Sums(w, r, in.Format, sums, s.names()))
}

// wrapLedger returns the problem of an error of the ledger.
func wrapLedger(err error) error {
	if err != nil {
		return unavailable(ledgerName, err)
	}
	return nil
}
