// Command scale makes data and traffic for the tests of the console.
//
//	scale seed -store sqlite:PATH -rows 1000000   fills a store that the gateway has made
//	scale load -url URL -key KEY -rate 500 -for 30s   sends requests at a fixed rate
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("name a command: seed or load")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "seed":
		address := flags.String("store", "", "address of the store")
		rows := flags.Int("rows", 1_000_000, "number of requests")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return seed(context.Background(), *address, *rows)
	case "load":
		l := load{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 30 * time.Second}}
		flags.StringVar(&l.url, "url", "", "URL of Chat Completions")
		flags.StringVar(&l.key, "key", "", "key of the client")
		flags.StringVar(&l.model, "model", "fast", "model")
		flags.IntVar(&l.rate, "rate", 500, "requests per second")
		flags.DurationVar(&l.length, "for", 30*time.Second, "how long")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(l.run())
	}
	return fmt.Errorf("there is no command %q; use seed or load", args[0])
}

// load sends requests at a fixed rate, also if responses are late.
type load struct {
	client          *http.Client
	url, key, model string
	rate            int
	length          time.Duration
}

// result is the output of a load.
type result struct {
	Sent    int     `json:"sent"`
	Failed  int64   `json:"failed"`
	Seconds float64 `json:"seconds"`
}

func (l *load) run() result {
	var failed atomic.Int64
	var running sync.WaitGroup
	body, _ := json.Marshal(map[string]any{"model": l.model, "messages": []any{map[string]string{"role": "user", "content": "Hello"}}}) // strings always encode
	began := time.Now()
	total := int(l.length.Seconds() * float64(l.rate))
	for i := range total {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(l.rate))))
		running.Go(func() {
			if l.send(body) != nil {
				failed.Add(1)
			}
		})
	}
	seconds := time.Since(began).Seconds()
	running.Wait()
	return result{Sent: total, Failed: failed.Load(), Seconds: seconds}
}

func (l *load) send(body []byte) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, l.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+l.key)
	req.Header.Set("Content-Type", "application/json")
	response, err := l.client.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, response.Body) // only the status counts
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
