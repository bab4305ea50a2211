package crowd

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// line is an exchange in the gateway's log.
type line struct {
	Msg        string `json:"msg"`
	UpstreamID string `json:"upstream_id"`
	Outcome    string `json:"outcome"`
	Stream     bool   `json:"stream"`
	Input      int    `json:"input_tokens"`
	CacheRead  int    `json:"cache_read_tokens"`
	CacheWrite int    `json:"cache_write_tokens"`
	Output     int    `json:"output_tokens"`
	Reasoning  int    `json:"reasoning_tokens"`
	Error      string `json:"error"`
	Cause      string `json:"error_cause"`
}

func (l line) tokens() tokens {
	return tokens{l.Input + l.CacheRead + l.CacheWrite, l.CacheRead, l.Output + l.Reasoning}
}

// logged are the exchanges in the log.
func logged(t *testing.T, g *rig.Gateway) []line {
	t.Helper()
	var all []line
	for text := range strings.Lines(strings.TrimSpace(g.Log())) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Errorf("the log has a line that is not JSON: %s", text)
		}
		if l.Msg == "exchange" {
			all = append(all, l)
		}
	}
	return all
}

// report collects what is wrong, and shows no more of a kind than a reader wants.
type report struct {
	t     *testing.T
	wrong map[string]int
}

func (r report) add(kind, format string, args ...any) {
	r.t.Helper()
	if r.wrong[kind]++; r.wrong[kind] <= 5 {
		r.t.Errorf(kind+": "+format, args...)
	}
}

// check holds what the clients heard against what the engine said and what the log
// says. It returns a summary.
func check(t *testing.T, heard []said, engine map[string]exchange, log []line) string {
	t.Helper()
	r := report{t, map[string]int{}}
	byID := map[string][]line{}
	for _, l := range log {
		byID[l.UpstreamID] = append(byID[l.UpstreamID], l)
		if l.Outcome != "ok" && l.Outcome != "cancelled" {
			r.add("the log tells of an error", "%+v", l)
		}
	}
	whole, formed, left := 0, 0, 0
	clients := map[string]bool{}
	for _, s := range heard {
		e, asked := engine[s.Nonce]
		switch {
		case s.Error != "":
			r.add("a client has an error", "%s on %s: %s", s.Nonce, s.Model, s.Error)
			continue
		case !asked:
			r.add("the engine was never asked", "%s", s.Nonce)
			continue
		}
		clients[s.Nonce[:strings.LastIndexByte(s.Nonce, '-')]] = true
		lines := byID[e.id]
		if len(lines) != 1 {
			r.add("not one line in the log", "%s has %d", s.Nonce, len(lines))
			continue
		}
		if s.Left {
			left++
			r.left(s, e, lines[0])
			continue
		}
		if whole++; s.Formed {
			formed++
		}
		r.whole(s, e, lines[0])
	}
	if len(log) != len(heard) {
		r.add("the log has another number of exchanges", "%d, and %d were had", len(log), len(heard))
	}
	if len(clients) != everybody {
		r.add("not all have talked", "%d of %d clients: %v", len(clients), everybody, slices.Sorted(maps.Keys(clients)))
	}
	if formed == 0 || left == 0 {
		r.add("it shows nothing", "%d had an answer that can be nobody else's and %d left", formed, left)
	}
	return fmt.Sprintf("%d requests of %d clients: %d had all of their answer (%d that can be nobody else's), %d left",
		len(heard), len(clients), whole, formed, left)
}

// whole checks an answer that was read to its end.
func (r report) whole(s said, e exchange, l line) {
	r.t.Helper()
	if !e.ended || s.Text != e.text {
		r.add("a wrong answer", "%s on %s has %q, the engine said %q", s.Nonce, s.Model, s.Text, e.text)
	}
	var ticket struct{ ID string }
	if s.Formed && (json.Unmarshal([]byte(s.Text), &ticket) != nil || ticket.ID != s.Nonce) {
		r.add("another's answer", "%s on %s has %q", s.Nonce, s.Model, s.Text)
	}
	if s.tokens != e.used || e.used.Input == 0 || e.used.Output == 0 {
		r.add("wrong usage", "%s on %s has %+v, the engine counted %+v", s.Nonce, s.Model, s.tokens, e.used)
	}
	if l.Outcome != "ok" || l.Stream != s.Stream || l.tokens() != e.used {
		r.add("a wrong line in the log", "%s: %+v, the engine counted %+v", s.Nonce, l, e.used)
	}
}

// left checks the answer of a client that did not wait for all of it.
func (r report) left(s said, e exchange, l line) {
	r.t.Helper()
	if !strings.HasPrefix(e.text, s.Text) {
		r.add("a wrong beginning", "%s on %s has %q, the engine said %q", s.Nonce, s.Model, s.Text, e.text)
	}
	// It may have left when all was on its way already.
	if l.Outcome != "cancelled" && (l.Outcome != "ok" || !e.ended || l.tokens() != e.used) {
		r.add("a wrong line in the log", "%s, which was left: %+v", s.Nonce, l)
	}
}
