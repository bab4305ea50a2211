package engines

import (
	"cmp"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
)

// TestMatrix asks for every feature in Chat, Responses, Messages and Gemini, of the engine
// in each of the first three. The table of what was done is a section of docs/evidence/compatibility.md.
func TestMatrix(t *testing.T) {
	s := newStage(t)
	table := newTable()
	for i, f := range features() {
		t.Run(f.name, func(t *testing.T) {
			for j, c := range s.clients {
				for k, u := range upstreams {
					if pairs := len(s.clients) * len(upstreams); testing.Short() && i > 0 && i%pairs != j*len(upstreams)+k {
						continue // a short run plays the first feature on every pair, and each other on one pair
					}
					at := place(f, c.Dialect, u)
					ran := at == nowhere // -run may leave a cell out
					ok := ran || t.Run(c.Dialect+" on "+u, func(t *testing.T) {
						ran = true
						f.play(t, &cell{s, c, u, f.ask}, at)
					})
					if ran {
						table.put(c.Dialect, u, f.name, at.mark(ok))
					}
				}
			}
		})
	}
	table.publish(t)
}

// A feature is asked for in every cell.
type feature struct {
	name string
	ask  gosdk.Request
	by   string // the engine that is asked, as the models' names begin; default "real"
	// hold asks the cell's gosdk.Request and checks what comes of it.
	hold func(t *testing.T, c *cell)
	// place says where the feature is not to be had; nil if it is everywhere.
	place func(client, upstream string) where
	// code is what the gateway says where the upstream's dialect has no place for it.
	code string
	// proof shows, without a gateway, that the engine is at fault where it is said to be.
	proof func(t *testing.T, s *stage)
}

// where a feature is to be had.
type where int

const (
	works   where = iota
	nowhere       // the client's dialect cannot ask for it
	lost          // the upstream's dialect cannot, and the gateway says so
	ignored       // the engine takes it and does not do it
)

func place(f feature, client, upstream string) where {
	if f.place == nil {
		return works
	}
	return f.place(client, upstream)
}

// mark is what the table has for it.
func (w where) mark(ok bool) string {
	if !ok {
		return "✗"
	}
	return map[where]string{works: "✓", nowhere: "–", lost: "reported", ignored: "engine"}[w]
}

// cell is one client on one upstream.
type cell struct {
	*stage
	client   *client
	upstream string
	ask      gosdk.Request
}

func (f feature) play(t *testing.T, c *cell, at where) {
	c.ask.Model = cmp.Or(f.by, "real") + "-" + c.upstream
	switch at {
	case works:
		f.hold(t, c)
	case lost:
		c.client.must(t, c.ask)
		if _, header, _ := c.client.last.response(); !strings.Contains(header.Get("Isogloss-Fidelity"), f.code) {
			t.Errorf("Isogloss-Fidelity is %q and does not say %q", header.Get("Isogloss-Fidelity"), f.code)
		}
	case ignored:
		f.proof(t, c.stage)
	}
}

// each does something with the gosdk.Request whole, streamed, and whole where only the
// upstream is asked to stream.
func (c *cell) each(t *testing.T, hold func(t *testing.T, q gosdk.Request)) {
	t.Helper()
	whole, streamed, gathered := c.ask, c.ask, c.ask
	streamed.Stream = true
	gathered.Model += live
	t.Run("whole", func(t *testing.T) { hold(t, whole) })
	t.Run("streamed", func(t *testing.T) { hold(t, streamed) })
	t.Run("gathered", func(t *testing.T) { hold(t, gathered) })
}
