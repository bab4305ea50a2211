package testrig_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

// wireDialects maps the names of the files of faults to those of the checkers.
var wireDialects = map[string]protocol.Name{"chat": protocol.OpenAIChat, "responses": protocol.OpenAIResponses, "anthropic": protocol.Anthropic,
	"gemini": protocol.Gemini, "converse": protocol.Converse}

// TestFaultsAreFound plants faults into good samples of requests, responses, streams and
// errors. The checkers accept the samples and reject each fault.
func TestFaultsAreFound(t *testing.T) {
	planted := 0
	for name, d := range wireDialects {
		sections := readFaults(t, name)
		for _, kind := range []string{"stream", "body", "error", "request"} {
			good, list := sections[kind], sections["faults of the "+kind]
			if list == "" {
				continue
			}
			if err := check(t, d, kind, good); err != nil {
				t.Errorf("%s: the good %s: %v", name, kind, err)
			}
			for line := range strings.Lines(list) {
				what, bad := plant(t, good, line)
				planted++
				if check(t, d, kind, bad) == nil {
					t.Errorf("%s, %s: %s is not found", name, kind, what)
				}
			}
		}
	}
	if planted < 100 {
		t.Errorf("%d faults were planted", planted)
	}
}

// readFaults returns the sections of a file of faults.
func readFaults(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("..", "..", "conform", "testdata", "faults", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	sections, at := map[string]string{}, ""
	for line := range strings.Lines(string(file)) {
		if head, ok := strings.CutPrefix(line, "-- "); ok {
			at = strings.TrimSuffix(head, " --\n")
			continue
		}
		if line != "\n" || !strings.HasPrefix(at, "faults") {
			sections[at] += line
		}
	}
	return sections
}

// plant returns the sample with the fault of a line.
func plant(t *testing.T, sample, line string) (what, bad string) {
	t.Helper()
	f := strings.SplitN(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "¶", "\n"), " | ", 3)
	if len(f) != 3 || !strings.Contains(sample, f[1]) {
		t.Fatalf("no such text in the sample: %s", line)
	}
	return f[0], strings.Replace(sample, f[1], f[2], 1)
}

// check returns what the checkers of a kind find.
func check(t *testing.T, d protocol.Name, kind, text string) error {
	t.Helper()
	rig := testrig.Dialect(d)
	header := http.Header{"Content-Type": {testrig.JSONMedia}}
	switch {
	case kind == "request" && d == protocol.Converse:
		return upstreamtest.CheckConverse([]byte(bodyOfRequest(text)))
	case kind == "request":
		return refused(t, text)
	case kind == "body":
		return outcome(rig.Read(testrig.Response{Status: 200, Header: header, Body: []byte(text)}, false))
	case kind == "error":
		if o := rig.Read(testrig.Response{Status: 503, Header: header, Body: []byte(text)}, false); o.Invalid != "" || o.Error == "" {
			return fmt.Errorf("%s", o)
		}
		return nil
	}
	if ending, err := protocoltest.Check(d, []byte(text)); err != nil || ending != protocoltest.Completed {
		return fmt.Errorf("ends %s: %v", ending, err)
	}
	if d == protocol.Converse {
		return nil // testrig does not read it
	}
	header.Set("Content-Type", testrig.StreamMedia)
	return outcome(rig.Read(testrig.Response{Status: 200, Header: header, Body: []byte(text)}, true))
}

func outcome(o testrig.Outcome) error {
	if o.Complete() {
		return nil
	}
	return fmt.Errorf("%s", o)
}

func bodyOfRequest(text string) string {
	_, body, _ := strings.Cut(text, "\n\n")
	return body
}

// refused sends a request to the fake upstream and returns its refusal.
func refused(t *testing.T, text string) error {
	t.Helper()
	up, err := testrig.NewUpstream()
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	up.Handle("", testrig.Answer("good"))
	head, body, _ := strings.Cut(text, "\n\n")
	head = strings.Replace(head, "\n", " HTTP/1.1\n", 1) + fmt.Sprintf("\nHost: up\nContent-Length: %d\n\n", len(body))
	req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(strings.ReplaceAll(head, "\n", "\r\n")), strings.NewReader(body))))
	if err != nil {
		t.Fatal(err)
	}
	req.RequestURI, req.URL.Scheme, req.URL.Host = "", "http", up.Addr
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var why bytes.Buffer
	if _, err := why.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return fmt.Errorf("%s", why.String())
}
