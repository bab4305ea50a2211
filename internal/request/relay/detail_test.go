package relay

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestTimesInTheRow checks the times of a request whose first target fails and whose second one streams,
// what the row says of the client, and that tokens times prices are the cost.
func TestTimesInTheRow(t *testing.T) {
	p, books := newCounted(t, func(p *pair) { p.state.Retries.Attempts = 2 })
	books.caller.Person = "Ada"
	p.up.Answer(upstreamtest.JSON(503, busy))
	p.two.Answer(upstreamtest.Stream(streamWithUsage("b")))
	resp, body, _ := p.post(t, chatPath, pairStream, "User-Agent", "agent/1 "+strings.Repeat("x", 1000))
	if resp.StatusCode != http.StatusOK {
		t.Fatal(body)
	}
	row := books.one(t, p.gateway)
	if row.Person != "Ada" || len(row.Agent) != usage.MaxAgent || !strings.HasPrefix(row.Agent, "agent/1 x") || row.Trace != "" || row.Fidelity != "exact" || row.Losses != nil {
		t.Errorf("%+v", row)
	}
	if len(row.Attempts) != 2 {
		t.Fatalf("%+v", row.Attempts)
	}
	one, two := row.Attempts[0], row.Attempts[1]
	start := two.Began.Sub(row.Began)
	ordered := []time.Duration{0, row.Queue, one.Began.Sub(row.Began) + one.Connect, one.Began.Sub(row.Began) + one.FirstByte, start, start + two.Connect, row.FirstByte, row.FirstToken, row.Took}
	if !slices.IsSorted(ordered) || one.Connect <= 0 || one.FirstByte <= 0 || one.FirstToken != 0 || two.Connect <= 0 || two.FirstByte <= 0 || two.FirstToken <= two.FirstByte ||
		(row.FirstByte-start-two.FirstByte).Abs() > time.Microsecond || (row.FirstToken-start-two.FirstToken).Abs() > time.Microsecond {
		t.Errorf("%v: %+v", ordered, row)
	}
	r := two.Rates
	if one.Rates != (usage.Rates{}) || r.Input != 2e9 || r.Output != 20e9 || int64(*row.Cost) != (row.Usage.Input*int64(r.Input)+row.Usage.Output*int64(r.Output))/1e6 {
		t.Errorf("%+v: %+v", *row.Cost, r)
	}
	// The connection of a stream is free a moment after the client has its end.
	eventually(t, "a request uses an open connection", func() bool {
		_, _, _ = p.post(t, chatPath, pairStream)
		rows := books.all(t)
		again := rows[len(rows)-1].Attempts
		return len(rows) > 1 && again[len(again)-1].Connect == 0
	})
}

// TestLossesInTheRow checks that a row has the fidelity and the losses of its response.
func TestLossesInTheRow(t *testing.T) {
	books := newLedger(t, quota.Limit{Budget: usage.Dollar})
	g := newGateway(t, books.use)
	g.up.Answer(upstreamtest.JSON(200, plainResponse))
	resp, body, _ := g.post(t, "/v1/messages", `{"model":"real-chat","max_tokens":16,"top_k":5,"messages":[{"role":"user","content":"Hi"}]}`)
	if resp.StatusCode != http.StatusOK {
		t.Fatal(body)
	}
	row := books.one(t, g)
	verdict, _, _ := strings.Cut(resp.Header.Get("Isogloss-Fidelity"), ";")
	if verdict != "dropped" || row.Fidelity != verdict || len(row.Losses) != 1 || row.Losses[0].Path != "sampling.top_k" || row.Losses[0].Code == "" || row.MoreLosses != 0 {
		t.Errorf("%s: %s %+v", verdict, row.Fidelity, row.Losses)
	}
}
