package main

import (
	"strings"
	"time"
)

// limit is each of the board's timeouts. A slow target stays below it or goes far
// beyond it.
const limit = 1500 * time.Millisecond

func playNotHTTP(c *call) bool {
	c.write("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n\x00\x00\x01\x14\x07\x14")
	return false
}

func playSlowHeaders(c *call) bool {
	for _, b := range "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" {
		if !c.write(string(b)) || !c.wait(limit/5) {
			return false
		}
	}
	return false
}

func playSlowFirstToken(c *call) bool {
	a := c.good("bad")
	if !c.stream {
		c.head(200, jsonMedia, -1)
		if c.wait(4 * limit) {
			c.chunks(a.whole())
			c.end()
		}
		return false
	}
	s := a.stream()
	c.head(200, eventMedia, -1)
	c.chunks(s.head...)
	for range 20 {
		if !c.wait(limit / 5) {
			return false
		}
		c.chunks(c.d.idleEvent())
	}
	c.chunks(append(s.words, s.tail...)...)
	return c.end()
}

func playHeadersThenSilence(c *call) bool {
	if c.stream {
		c.head(200, eventMedia, -1)
	} else {
		c.head(200, jsonMedia, -1)
	}
	return c.hold()
}

// half sends the first part of an answer.
func (c *call) half() {
	a := c.good("bad")
	if !c.stream {
		body := a.whole()
		c.head(200, jsonMedia, len(body))
		c.write(body[:len(body)/2])
		return
	}
	s := a.stream()
	c.head(200, eventMedia, -1)
	c.chunks(append(s.head, s.words[:len(s.words)/2]...)...)
}

func playStall(c *call) bool {
	c.half()
	return c.hold()
}

func playCut(end script) script {
	return func(c *call) bool {
		c.half()
		if !c.wait(limit / 10) { // RST would take back what has not been read
			return false
		}
		return end(c)
	}
}

func playSlowButHealthy(c *call) bool {
	a := c.good("bad")
	if !c.wait(limit * 4 / 10) {
		return false
	}
	if !c.stream {
		body := a.whole()
		c.head(200, jsonMedia, len(body))
		c.wait(limit * 7 / 10)
		c.write(body[:20])
		c.wait(limit * 7 / 10)
		return c.write(body[20:])
	}
	s := a.stream()
	c.head(200, eventMedia, -1)
	c.chunks(s.head...)
	c.wait(limit * 3 / 10)
	c.chunks(s.words[:3]...)
	c.wait(limit * 7 / 10)
	c.chunks(s.words[3:6]...)
	c.wait(limit * 7 / 10)
	c.chunks(append(s.words[6:], s.tail...)...)
	return c.end()
}

// playNoFinish ends a stream as if it were whole, but for its finish.
func playNoFinish(last string) script {
	return func(c *call) bool {
		s := c.good("bad").stream()
		c.head(200, eventMedia, -1)
		c.chunks(append(s.head, s.words...)...)
		if last != "" {
			c.chunks(last)
		}
		return c.end()
	}
}

func playEmpty(c *call) bool {
	if c.stream {
		c.head(200, eventMedia, -1)
		return c.end()
	}
	return c.whole(200, jsonMedia, "")
}

func playErrorEvent(after int) script {
	return func(c *call) bool {
		s := c.good("bad").stream()
		c.head(200, eventMedia, -1)
		c.chunks(append(s.head, s.words[:after]...)...)
		c.chunks(c.d.faultEvent(500, "the engine has died"))
		return c.end()
	}
}

func playTruncatedJSON(c *call) bool {
	a := c.good("bad")
	if !c.stream {
		body := a.whole()
		return c.whole(200, jsonMedia, body[:len(body)*2/3])
	}
	first := strings.TrimRight(a.stream().words[0], "\n")
	c.head(200, eventMedia, -1)
	c.chunks(first[:len(first)*2/3] + "\n\n")
	return c.end()
}

func playErrorBody(c *call) bool {
	return c.whole(200, jsonMedia, c.d.fault(500, "the engine has died"))
}

func playStatus(status int, headers ...string) script {
	return func(c *call) bool { return c.whole(status, jsonMedia, c.d.fault(status, "not now"), headers...) }
}

func playStatusSaying(status int, message string) script {
	return func(c *call) bool { return c.whole(status, jsonMedia, c.d.fault(status, message)) }
}

func playRecovery(c *call) bool {
	if c.n == 1 {
		return playStatus(503)(c)
	}
	return answerAs("bad")(c)
}

// playUnauthorized quotes the key, as OpenAI does.
func playUnauthorized(status int) script {
	return func(c *call) bool {
		message := "Incorrect API key provided: sk-chaos. API key not valid. invalid x-api-key"
		if status == 403 {
			return c.whole(403, jsonMedia, strings.Replace(c.d.fault(401, message), `"code":401`, `"code":403`, 1))
		}
		return c.whole(401, jsonMedia, c.d.fault(401, message))
	}
}

func playGarbage(c *call) bool {
	const noise = "\x7f\x03#$%&/()=? lorem {{{ ]] \xff\xfe"
	if !c.stream {
		return c.whole(200, jsonMedia, noise)
	}
	c.head(200, eventMedia, -1)
	c.chunks(noise+"\n\n", "data: "+noise+"\n\n", "data: [[[\n\n")
	return c.end()
}
