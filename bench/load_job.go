package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/spf13/cobra"
)

// job is the input of a load process, as one line of JSON.
type job struct {
	Mode string `json:"mode"` // closed, rate, hold or streams
	Addr string `json:"addr"`
	HTTP string `json:"http"` // the version; "" is h1
	Path string `json:"path"`
	Head string `json:"head"` // a header line of the dialect
	Key  string `json:"key"`  // "" is one that nobody checks
	Body []byte `json:"body"`

	Stream bool   `json:"stream"`
	Bytes  int    `json:"bytes"`  // an answer has at least so many
	Events int    `json:"events"` // and so many events
	Binary bool   `json:"binary"` // its events are not lines of text
	End    string `json:"end"`    // and ends with this line
	Models int    `json:"models"` // ask for so many models of a large table in turn

	Conns   int     `json:"conns"`
	Warm    int     `json:"warm"`    // exchanges before it counts
	Total   int     `json:"total"`   // closed: exchanges
	Rate    float64 `json:"rate"`    // rate: exchanges a second
	Seconds float64 `json:"seconds"` // rate, hold: how long
	Stages  []int   `json:"stages"`  // hold: streams to have open, one after the other

	Open  int      `json:"open"`  // streams: how many are open at any time
	Keys  []string `json:"keys"`  // streams: they use these keys in turn
	Lives []life   `json:"lives"` // streams: they have these lives in turn
}

// newJob returns a job whose requests have a prompt of this size.
func newJob(mode string, client testrig.Dialect, model string, size int, stream bool) job {
	j := job{Mode: mode, Path: client.Path(model, stream), Stream: stream, End: client.LastEvent(), Binary: client == testrig.Converse,
		Body: []byte(client.Body(testrig.Query{Model: model, System: "You are helpful.", Prompt: text(size), Stream: stream}))}
	if client == testrig.Messages {
		j.Head = "anthropic-version: 2023-06-01\r\n"
	}
	return j
}

// result is the output of a load process. Times are in milliseconds.
type result struct {
	Ready   bool    `json:"ready"` // the work may begin
	Asked   int     `json:"asked"`
	Failed  int     `json:"failed"`
	Error   string  `json:"error"`
	Seconds float64 `json:"seconds"`
	Events  int     `json:"events"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	First50 float64 `json:"first50"` // to the first event with text
	First99 float64 `json:"first99"`
	Open    int     `json:"open"` // streams
	Done    bool    `json:"done"` // the last result of streams
}

// newLoadCommand runs one job. It reads the job as a line of JSON, and a line "go" each
// time it has reported that it is ready. It ends with its input.
func newLoadCommand() *cobra.Command {
	return &cobra.Command{Use: "load", Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		in := bufio.NewReader(os.Stdin)
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		var j job
		if err := json.Unmarshal(line, &j); err != nil {
			return err
		}
		l := &loader{job: j, in: in, out: json.NewEncoder(cmd.OutOrStdout())}
		return l.run(cmd.Context())
	}}
}

// loader runs a job.
type loader struct {
	job
	in  *bufio.Reader
	out *json.Encoder

	tally tally

	mu     sync.Mutex
	shared []*http.Transport // the connections of HTTP/2
}

// conn returns the i-th client. Clients of HTTP/2 share connections: paced streams fill them, and the workers of a
// closed job have four.
func (l *loader) conn(i int) *conn { return l.connOf(&l.job, i) }

// connOf returns the i-th client, for a job that differs in its requests.
func (l *loader) connOf(j *job, i int) *conn {
	c := newConn(j)
	if l.HTTP != h2 {
		return c
	}
	each := streamsEach
	if l.Conns > 0 {
		each = max(1, l.Conns/4)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.shared) <= i/each {
		// One connection, on which requests wait.
		l.shared = append(l.shared, &http.Transport{TLSClientConfig: trusting(), Protocols: protocols(h2), DisableCompression: true,
			HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true, MaxReceiveBufferPerStream: 64 << 10}})
	}
	c.shared = l.shared[i/each]
	return c
}

// streamsEach is how many open streams share a connection of the load. Most servers allow 250.
const streamsEach = 200

func (l *loader) run(ctx context.Context) error {
	switch l.Mode {
	case "closed":
		return l.closed(ctx)
	case "rate":
		return l.atRate(ctx)
	case "hold":
		return l.hold(ctx)
	case "streams":
		return l.streams(ctx)
	}
	return fmt.Errorf("there is no mode %q", l.Mode)
}

// await reports that the load is ready and waits for the line "go".
func (l *loader) await() error {
	if err := l.out.Encode(result{Ready: true, Failed: l.tally.failed, Error: l.tally.first}); err != nil {
		return err
	}
	_, err := l.in.ReadString('\n')
	if err == io.EOF {
		return fmt.Errorf("the job was called off")
	}
	return err
}

// tally counts failures.
type tally struct {
	mu     sync.Mutex
	failed int
	first  string
}

func (t *tally) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == 0 {
		t.first = err.Error()
	}
	t.failed++
}

// add writes the count into a result.
func (t *tally) add(r *result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Failed, r.Error = t.failed, t.first
}
