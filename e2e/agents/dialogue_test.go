package agents

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// A dialogue is an agent that reads lines of JSON and writes them.
type dialogue struct {
	line   []string                   // its command line
	change func(model string) string  // the line that changes the model
	say    func(prompt string) string // the line with a prompt
	ends   string                     // what is in the last line of an answer

	in    *io.PipeWriter
	lines chan string
	log   *rig.Log
}

// open starts the agent, and end ends it.
func (d *dialogue) open(t *testing.T, a *agent, s *site) (end func()) {
	t.Helper()
	a.installed(t, s)
	a.setUp(t, s)
	in, typed := io.Pipe()
	printed, out := io.Pipe()
	d.in, d.lines, d.log = typed, make(chan string, 1), &rig.Log{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.start(t, s, d.line, in, io.MultiWriter(out, d.log), d.log)
		_ = out.Close()
		_ = in.Close()
	}()
	go func() {
		defer close(d.lines)
		scan := bufio.NewScanner(printed)
		scan.Buffer(nil, 1<<24)
		for scan.Scan() {
			d.lines <- scan.Text()
		}
	}()
	return func() {
		_ = typed.Close() // the end of its input ends the agent
		for range d.lines {
		}
		<-ended
	}
}

// send has the agent answer a prompt, with another model if one is named, and returns
// what it prints.
func (d *dialogue) send(t *testing.T, model, prompt string) string {
	t.Helper()
	text := d.say(prompt) + "\n"
	if model != "" {
		text = d.change(model) + "\n" + text
	}
	if _, err := io.WriteString(d.in, text); err != nil {
		t.Fatalf("the agent has ended: %v\n%s", err, d.log)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out strings.Builder
	for {
		select {
		case line, open := <-d.lines:
			out.WriteString(line + "\n")
			if !open || strings.Contains(line, d.ends) {
				return out.String()
			}
		case <-ctx.Done():
			t.Fatalf("the agent has not answered after %s\n%s", patience, d.log)
		}
	}
}
