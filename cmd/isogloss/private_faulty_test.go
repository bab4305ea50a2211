package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/app"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// panicMark in a text makes a faulty dialect panic when it reads the text.
const panicMark = "pan1c"

// runFaulty runs a gateway whose dialects panic, with values that quote what they read.
func runFaulty() int {
	log.SetOutput(io.Discard) // as run does
	o := app.Options{Config: os.Args[len(os.Args)-1], Env: os.LookupEnv, Log: os.Stderr, Version: "faulty"}
	for _, d := range all.Dialects() {
		o.Dialects = append(o.Dialects, faulty(d))
	}
	if err := app.Run(untilSignal(), o); err != nil {
		complain(os.Stderr, err)
		return 1
	}
	return 0
}

// faulty makes a dialect panic.
func faulty(d *codec.Dialect) *codec.Dialect {
	d.Codec = faultyCodec{d.Codec}
	d.EndStream = nil // it needs the dialect's own tap
	if locate := d.Locate; locate != nil {
		d.Locate = func(r *http.Request) (codec.Location, bool, *llm.Error) {
			panicOn([]byte(fmt.Sprint(r.URL, r.Header)))
			return locate(r)
		}
	}
	return d
}

func panicOn(text []byte) {
	if bytes.Contains(text, []byte(panicMark)) {
		panic(fmt.Sprintf("%s %s: %s", private, secret, text))
	}
}

type faultyCodec struct{ protocol.Translator }

func (f faultyCodec) DecodeRequest(in protocol.Incoming) (*llm.Request, *llm.Error) {
	if bytes.Contains(in.Body, []byte(panicMark+" decode")) {
		panicOn(in.Body)
	}
	return f.Translator.DecodeRequest(in)
}

func (f faultyCodec) EncodeRequest(r *llm.Request, to protocol.Target, report *llm.Report) (protocol.Outgoing, *llm.Error) {
	out, err := f.Translator.EncodeRequest(r, to, report)
	panicOn(out.Body)
	return out, err
}

func (f faultyCodec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	panicOn(body)
	return f.Translator.DecodeResponse(body)
}

func (f faultyCodec) NewStreamDecoder() protocol.StreamDecoder {
	return faultyDecoder{f.Translator.NewStreamDecoder()}
}

func (f faultyCodec) NewTap(choices int) protocol.Tap { return faultyTap{f.Translator.NewTap(choices)} }

type faultyDecoder struct{ protocol.StreamDecoder }

func (f faultyDecoder) Decode(name, data []byte, to []llm.Event) []llm.Event {
	panicOn(data)
	return f.StreamDecoder.Decode(name, data, to)
}

type faultyTap struct{ protocol.Tap }

func (f faultyTap) Event(data []byte) protocol.Mark {
	panicOn(data)
	return f.Tap.Event(data)
}

func (f faultyTap) Body(body []byte) *llm.Error {
	panicOn(body)
	return f.Tap.Body(body)
}

// playPanics makes the gateway panic where it reads requests and responses, in every pair of
// dialects, in a hedged attempt, and before it knows the dialect.
func (g *watched) playPanics(t *testing.T) {
	t.Helper()
	before := func() int { return strings.Count(g.log.String(), `"msg":"panic"`) }
	play := func(where string, x exchange) {
		t.Helper()
		n := before()
		status, text, _ := g.send(t, x)
		if strings.Contains(text, private) && !x.stream {
			t.Errorf("%s: the client got %d %s", where, status, text)
		}
		if before() == n {
			g.log.WaitFor(t, `"msg":"panic"`, n+1, g.ended)
		}
	}
	for _, client := range g.dialects {
		for _, up := range g.dialects {
			for _, stream := range []bool{false, true} {
				where := fmt.Sprintf("%s on %s, stream %t", client.Name, up.Name, stream)
				play(where, exchange{client: client, model: string(up.Name) + "--panic", stream: stream})
				if client != up {
					play(where, exchange{client: client, model: string(up.Name) + "--ok", stream: stream, prompt: "pr1vate " + panicMark + " decode"})
					play(where, exchange{client: client, model: string(up.Name) + "--ok", stream: stream, prompt: "pr1vate " + panicMark + " encode"})
				}
			}
		}
		if e, ok := g.table.Generate(client.Name, "m"); ok && e.Path == "" { // the dialect reads the path itself
			play("before the dialect is known", exchange{client: client, model: string(client.Name) + "--ok", query: "&note=" + panicMark})
		}
	}
	hedged := g.hedgeable(t)
	hedged.prompt = "pr1vate prompt with a burst"
	play("in a hedged attempt", hedged)
}
