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

	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// witness is a handler that copies the spool's files before the last bytes of a response
// are written. The copy is what a process that is killed at that moment leaves on disk.
type witness struct {
	http.ResponseWriter
	last    string // start of a stream's last event; empty for a response with a Content-Length
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

// watched puts a witness in front of a gateway. It returns the folder of the copies and a
// function that counts them.
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

// adopted returns the rows that another process recovers from a folder.
func adopted(t *testing.T, dir string) []usage.Row {
	t.Helper()
	next := &ledger{}
	spool, err := spool.Open(spool.Options{Dir: dir, Node: "n2", Keep: -1})
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

// TestRowIsWrittenBeforeTheLastEvent checks that the row is on disk before the client
// gets a stream's last event or a non-streaming response's last byte. Killing the gateway
// therefore cannot make a completed response free.
func TestRowIsWrittenBeforeTheLastEvent(t *testing.T) {
	text := sharedCase(t, "text")
	eachCell(t, func(t *testing.T, client, upstream protocol.Name) {
		for _, stream := range []bool{true, false} {
			if stream && client == geminiDialect && upstream == geminiDialect {
				continue // Gemini's stream has no final event: it ends with the body
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
		last = lastEventOf(string(c.client))
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
		t.Fatalf("%+v: the last bytes were written %d times: %s", c, copies(), body)
	}
	kept := adopted(t, dir)
	if len(kept) != 1 || kept[0].Outcome != usage.Answered || kept[0].ID != row.ID || kept[0].Usage != row.Usage || kept[0].Status != http.StatusOK {
		t.Errorf("%+v: before the last bytes, the disk had %+v; the row is %+v", c, kept, row)
	}
}

// TestRowIsWrittenBeforeOddEnds checks the same for a last event without its blank line,
// an error event, a cached response and a forwarded path.
func TestRowIsWrittenBeforeOddEnds(t *testing.T) {
	for name, c := range map[string]struct {
		script          upstreamtest.Script
		path, ask, last string
		outcome         usage.Outcome
	}{
		"no blank line":        {upstreamtest.Stream(textChunk + stopChunk + tokensChunk + strings.TrimSpace(sentinel)), chatPath, streamRequest, "[DONE]", usage.Answered},
		"an error in a stream": {upstreamtest.Stream(textChunk + failChunk), chatPath, streamRequest, `"error"`, usage.Failed},
		"cut":                  {upstreamtest.Break(textChunk), chatPath, streamRequest, `"error"`, usage.Failed},
		"an error's status":    {upstreamtest.JSON(400, `{"error":{"message":"no","type":"x","param":null,"code":null}}`), chatPath, plainRequest, `"error"`, usage.Failed},
		"not there":            {func(*upstreamtest.Conn) {}, chatPath, plainRequest, `"error"`, usage.Failed},
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
				t.Fatalf("the last bytes were written %d times: %s", copies(), body)
			}
			if kept := adopted(t, dir); len(kept) != 1 || kept[0].Outcome != c.outcome || kept[0].ID != row.ID {
				t.Errorf("before the last bytes, the disk had %+v", kept)
			}
		})
	}
}

// TestRowOfAKilledProcess checks that the row of a process killed in mid-stream counts
// the tokens that the client had received.
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
			readUntil(t, r, "stop") // so that the third event is counted, too
			line := books.folder(t)
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, filepath.Base(line)), os.DirFS(line)); err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
			// The row may be open or complete at this point; its tokens are the same.
			kept := adopted(t, dir)
			if len(kept) != 1 || kept[0].Usage.Input != likelyOf(ask) || kept[0].Usage.Output < 3 || kept[0].Usage.Output > 4 || !kept[0].Estimated || kept[0].Cost == nil {
				t.Errorf("%+v", kept)
			}
			g.line(t)
		})
	}
}

// TestDeliveryIsCountedBeforeItIsMade checks that output tokens are counted on disk
// before they are sent to the client, so that a killed process loses no charge.
func TestDeliveryIsCountedBeforeItIsMade(t *testing.T) {
	for name, path := range map[string]string{"verbatim": chatPath, "translated": "/v1/messages"} {
		t.Run(name, func(t *testing.T) {
			books := newLedger(t)
			g := newGateway(t, books.use)
			dir, copies := watched(t, g, books, "canary")
			g.up.Answer(upstreamtest.Stream(textChunk + textChunk + canaryChunk + stopChunk[:10])) // an unfinished stream
			const ask = `{"model":"real-chat","stream":true,"max_tokens":16,"messages":[{"role":"user","content":"Hi"}]}`
			_, body, _ := g.post(t, path, ask)
			books.one(t, g)
			if copies() != 1 {
				t.Fatalf("the last bytes were written %d times: %s", copies(), body)
			}
			if kept := adopted(t, dir); len(kept) != 1 || kept[0].Usage.Input != likelyOf(ask) || kept[0].Usage.Output != 3 || !kept[0].Estimated {
				t.Errorf("%+v", kept)
			}
		})
	}
}
