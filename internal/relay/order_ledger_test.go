package relay

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// witness copies the spool before the last bytes of an answer go on their way: what
// is on the disk then is all that is left if the process dies.
type witness struct {
	http.ResponseWriter
	last    string // of a stream; empty for an answer that has its length
	written int
	copy    func()
	copies  int
}

func (w *witness) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *witness) Write(p []byte) (int, error) {
	w.written += len(p)
	if w.isLast(p) {
		w.copies++
		w.copy()
	}
	return w.ResponseWriter.Write(p)
}

func (w *witness) isLast(p []byte) bool {
	if w.last != "" {
		return bytes.Contains(p, []byte(w.last))
	}
	return w.Header().Get("Content-Length") == strconv.Itoa(w.written)
}

// watched puts a witness before a gateway, and returns how often it has copied the
// spool, and where to.
func watched(t *testing.T, g *gateway, books *ledger, last string) (dir string, copies func() int) {
	t.Helper()
	dir = t.TempDir()
	var mu sync.Mutex
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		see := &witness{ResponseWriter: w, last: last, copy: func() {
			from := books.folder(t)
			if err := os.CopyFS(filepath.Join(dir, filepath.Base(from)), os.DirFS(from)); err != nil {
				t.Error(err)
			}
		}}
		g.relay.ServeHTTP(see, r)
		mu.Lock()
		defer mu.Unlock()
		n += see.copies
	}))
	t.Cleanup(srv.Close)
	g.URL = srv.URL
	return dir, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// adopted are the rows that another process makes of a folder.
func adopted(t *testing.T, dir string) []usage.Row {
	t.Helper()
	next := &ledger{}
	spool, err := usage.OpenSpool(usage.SpoolOptions{Dir: dir, Node: "n2"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var drained sync.WaitGroup
	drained.Go(func() { spool.Drain(ctx, next, nil) })
	eventually(t, "the copy was adopted", func() bool {
		left, err := filepath.Glob(filepath.Join(dir, "run-n1-*"))
		return err == nil && len(left) == 0
	})
	stop()
	drained.Wait()
	if err := spool.Close(); err != nil {
		t.Error(err)
	}
	return next.rows
}

// When the last event of a stream goes to the client, or the last byte of a whole
// answer, its row is on the disk already: whoever kills the gateway after that cannot
// have had the answer for nothing.
func TestRowIsWrittenBeforeTheEndIsTold(t *testing.T) {
	text := sharedCase(t, "text")
	eachCell(t, func(t *testing.T, client, upstream protocol.Name) {
		for _, stream := range []bool{true, false} {
			if stream && client == geminiDialect && upstream == geminiDialect {
				continue // Gemini's stream has no last event: it is over when the body is
			}
			for _, events := range []bool{true, false} {
				testRowBefore(t, text, cell{client, upstream, stream, events})
			}
		}
	})
}

type cell struct {
	client, upstream protocol.Name
	stream, events   bool
}

func testRowBefore(t *testing.T, text shared, c cell) {
	t.Helper()
	books := newLedger(t)
	g := newGateway(t, books.use, speaking(c.upstream))
	last := ""
	if c.stream {
		last = lastOf(string(c.client))
	}
	dir, copies := watched(t, g, books, last)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, text.whole(c.upstream)))
	if c.events {
		g.up.Answer(upstreamtest.Stream(text.stream(c.upstream)))
	}
	path, ask := text.ask(c.client, c.stream)
	resp, body, err := g.post(t, path, ask)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%+v: %v %s %s", c, err, resp.Status, body)
	}
	row := books.one(t, g)
	if copies() != 1 {
		t.Fatalf("%+v: the end was told %d times: %s", c, copies(), body)
	}
	kept := adopted(t, dir)
	if len(kept) != 1 || kept[0].Outcome != usage.Answered || kept[0].ID != row.ID || kept[0].Usage != row.Usage || kept[0].Status != http.StatusOK {
		t.Errorf("%+v: before the end was told, the disk had %+v; the row is %+v", c, kept, row)
	}
}

// The same holds for what is odd: a last event without its blank line, an error in
// a stream, an answer from before, and a path that is only forwarded.
func TestRowIsWrittenBeforeOddEnds(t *testing.T) {
	for name, c := range map[string]struct {
		script          upstreamtest.Script
		path, ask, last string
		outcome         usage.Outcome
	}{
		"no blank line":        {upstreamtest.Stream(textChunk + stopChunk + tokensChunk + strings.TrimSpace(sentinel)), chatPath, streamAsk, "[DONE]", usage.Answered},
		"an error in a stream": {upstreamtest.Stream(textChunk + failChunk), chatPath, streamAsk, `"error"`, usage.Failed},
		"cut":                  {upstreamtest.Break(textChunk), chatPath, streamAsk, `"error"`, usage.Failed},
		"an error's status":    {upstreamtest.JSON(400, `{"error":{"message":"no","type":"x","param":null,"code":null}}`), chatPath, plainAsk, `"error"`, usage.Failed},
		"not there":            {func(*upstreamtest.Conn) {}, chatPath, plainAsk, `"error"`, usage.Failed},
		"forwarded":            {upstreamtest.JSON(200, `{"canary":1}`), speechPath, "{}", "canary", usage.Answered},
	} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t)
			g := newGateway(t, books.use, listSpeech)
			dir, copies := watched(t, g, books, c.last)
			g.up.Answer(c.script)
			_, body, _ := g.post(t, c.path, c.ask)
			row := books.one(t, g)
			if copies() != 1 {
				t.Fatalf("the end was told %d times: %s", copies(), body)
			}
			if kept := adopted(t, dir); len(kept) != 1 || kept[0].Outcome != c.outcome || kept[0].ID != row.ID {
				t.Errorf("before the end was told, the disk had %+v", kept)
			}
		})
	}
}

// A process that dies in mid-stream leaves a row of what the client had by then.
func TestRowOfAKilledProcess(t *testing.T) {
	for name, path := range map[string]string{"verbatim": chatPath, "translated": "/v1/messages"} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t)
			g := newGateway(t, books.use)
			next := make(chan bool)
			g.up.Answer(func(c *upstreamtest.Conn) {
				c.BeginStream()
				for range 3 {
					c.Chunk(canaryChunk)
					<-next
				}
				c.Chunk(stopChunk + sentinel)
				c.EndStream()
			})
			const ask = `{"model":"real-chat","stream":true,"max_tokens":16,"messages":[{"role":"user","content":"Hi"}]}`
			c, r := g.dial(t)
			_, _ = c.Write([]byte(rawPost(path, ask, len(ask))))
			for range 3 {
				readUntil(t, r, "canary")
				next <- true
			}
			readUntil(t, r, "stop") // so that the third was counted, too
			line := books.folder(t)
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, filepath.Base(line)), os.DirFS(line)); err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
			// Whether it had ended by then, nobody knows; what it says of the tokens is the same.
			kept := adopted(t, dir)
			if len(kept) != 1 || kept[0].Usage.Input != likelyOf(ask) || kept[0].Usage.Output < 3 || kept[0].Usage.Output > 4 || !kept[0].Estimated || kept[0].Cost == nil {
				t.Errorf("%+v", kept)
			}
			g.line(t)
		})
	}
}

// What goes to the client is counted on the disk before it does, so that a killed
// process has given nothing away.
func TestDeliveryIsCountedBeforeItIsMade(t *testing.T) {
	for name, path := range map[string]string{"verbatim": chatPath, "translated": "/v1/messages"} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t)
			g := newGateway(t, books.use)
			dir, copies := watched(t, g, books, "canary")
			g.up.Answer(upstreamtest.Stream(textChunk + textChunk + canaryChunk + stopChunk[:10])) // which is no end
			const ask = `{"model":"real-chat","stream":true,"max_tokens":16,"messages":[{"role":"user","content":"Hi"}]}`
			_, body, _ := g.post(t, path, ask)
			books.one(t, g)
			if copies() != 1 {
				t.Fatalf("it was told %d times: %s", copies(), body)
			}
			if kept := adopted(t, dir); len(kept) != 1 || kept[0].Usage.Input != likelyOf(ask) || kept[0].Usage.Output != 3 || !kept[0].Estimated {
				t.Errorf("%+v", kept)
			}
		})
	}
}
