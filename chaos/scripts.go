package main

import (
	"net/http"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	// limit is the timeout of every phase of targets that exceed it. A slow target goes far
	// beyond it.
	limit = 1500 * time.Millisecond
	// wideLimit is that of a target that takes widePhase in every phase. A busy machine may
	// take the rest.
	wideLimit = 12 * time.Second
	widePhase = wideLimit * 4 / 10
	// patience is far more than a working gateway needs for anything, on a busy machine.
	patience = 2 * time.Minute
)

func notHTTP(c *testrig.Call) bool {
	c.Write("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n\x00\x00\x01\x14\x07\x14")
	return false
}

func slowHeaders(c *testrig.Call) bool {
	for _, b := range "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" {
		if !c.Write(string(b)) || !c.Wait(limit/5) {
			return false
		}
	}
	return false
}

func slowFirstToken(c *testrig.Call) bool {
	r := c.Reply("bad")
	if !c.Stream {
		c.Head(http.StatusOK, testrig.JSONMedia, -1)
		return c.Wait(4*limit) && c.Chunks(r.Body()) && c.End()
	}
	s := r.Stream()
	c.StartStream()
	c.Chunks(s.Head...)
	for range 20 {
		if !c.Wait(limit / 5) {
			return false
		}
		c.Chunks(c.Dialect.IdleEvent())
	}
	return c.Chunks(append(s.Words, s.Tail...)...) && c.End()
}

func headersThenSilence(c *testrig.Call) bool {
	if c.Stream {
		c.StartStream()
	} else {
		c.Head(http.StatusOK, testrig.JSONMedia, -1)
	}
	return c.Hold()
}

// sendHalf sends the first half of an answer.
func sendHalf(c *testrig.Call) {
	r := c.Reply("bad")
	if !c.Stream {
		body := r.Body()
		c.Head(http.StatusOK, testrig.JSONMedia, len(body))
		c.Write(body[:len(body)/2])
		return
	}
	s := r.Stream()
	c.StartStream()
	c.Chunks(append(s.Head, s.Words[:len(s.Words)/2]...)...)
}

func stall(c *testrig.Call) bool {
	sendHalf(c)
	return c.Hold()
}

func cut(end testrig.Script) testrig.Script {
	return func(c *testrig.Call) bool {
		sendHalf(c)
		return end(c) // what has arrived can be read after a reset, too
	}
}

// slowButHealthy takes a good part of the timeout in each of three phases, and so longer than
// the timeout for all of them.
func slowButHealthy(c *testrig.Call) bool {
	r := c.Reply("bad")
	if !c.Wait(widePhase) {
		return false
	}
	if !c.Stream {
		body := r.Body()
		c.Head(http.StatusOK, testrig.JSONMedia, len(body))
		c.Wait(widePhase)
		c.Write(body[:20])
		c.Wait(widePhase)
		return c.Write(body[20:])
	}
	s := r.Stream()
	c.StartStream()
	c.Chunks(s.Head...)
	c.Chunks(s.Words[:3]...)
	c.Wait(widePhase)
	c.Chunks(s.Words[3:6]...)
	c.Wait(widePhase)
	return c.Chunks(append(s.Words[6:], s.Tail...)...) && c.End()
}

// noFinish ends a stream in order but without its finish reason.
func noFinish(last ...string) testrig.Script {
	return func(c *testrig.Call) bool {
		s := c.Reply("bad").Stream()
		c.StartStream()
		return c.Chunks(append(append(s.Head, s.Words...), last...)...) && c.End()
	}
}

func empty(c *testrig.Call) bool {
	if c.Stream {
		c.StartStream()
		return c.End()
	}
	return c.Respond(http.StatusOK, testrig.JSONMedia, "")
}

// errorEvent sends an error event after some words.
func errorEvent(after int) testrig.Script {
	return func(c *testrig.Call) bool {
		s := c.Reply("bad").Stream()
		c.StartStream()
		c.Chunks(append(s.Head, s.Words[:after]...)...)
		return c.Chunks(c.Dialect.ErrorEvent(500, "the engine has died", len(s.Head)+after)) && c.End()
	}
}

func truncatedJSON(c *testrig.Call) bool {
	r := c.Reply("bad")
	if !c.Stream {
		body := r.Body()
		return c.Respond(http.StatusOK, testrig.JSONMedia, body[:len(body)*2/3])
	}
	event := strings.TrimRight(r.Stream().Words[0], "\n")
	c.StartStream()
	return c.Chunks(event[:len(event)*2/3]+"\n\n") && c.End()
}

func errorBody(c *testrig.Call) bool {
	return c.Respond(http.StatusOK, testrig.JSONMedia, c.Dialect.ErrorBody(500, "the engine has died"))
}

func errorMessage(status int, message string) testrig.Script {
	return func(c *testrig.Call) bool { return c.Error(status, message) }
}

// respond answers with status 200 and any body.
func respond(media, body string) testrig.Script {
	return func(c *testrig.Call) bool { return c.Respond(http.StatusOK, media, body) }
}

func recovery(c *testrig.Call) bool {
	if c.N == 1 {
		return testrig.Status(503)(c)
	}
	return testrig.Answer("bad")(c)
}

// unauthorized quotes the key, as OpenAI does.
func unauthorized(status int) testrig.Script {
	return func(c *testrig.Call) bool {
		body := c.Dialect.ErrorBody(401, "Incorrect API key provided: sk-chaos. API key not valid. invalid x-api-key")
		if status == http.StatusForbidden {
			body = strings.Replace(body, `"code":401`, `"code":403`, 1)
		}
		return c.Respond(status, testrig.JSONMedia, body)
	}
}

func garbage(c *testrig.Call) bool {
	const noise = "\x7f\x03#$%&/()=? lorem {{{ ]] \xff\xfe"
	if !c.Stream {
		return c.Respond(http.StatusOK, testrig.JSONMedia, noise)
	}
	c.StartStream()
	return c.Chunks(noise+"\n\n", "data: "+noise+"\n\n", "data: [[[\n\n") && c.End()
}
