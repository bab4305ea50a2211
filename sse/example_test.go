package sse_test

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/isogloss-gateway/isogloss/sse"
)

func ExampleReader_Next() {
	body := strings.NewReader("event: greeting\ndata: hello\n\n: keep-alive\n\ndata: [DONE]\n\n")
	r := sse.NewReader(body, sse.Options{})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q %q\n", e.Name, e.Data)
	}
	// Output:
	// "greeting" "hello"
	// "" "[DONE]"
}

// A proxy forwards the bytes and leaves out one type of event.
func ExampleReader_Batch() {
	body := strings.NewReader("data: 1\n\nevent: ping\ndata: {}\n\n: note\ndata: 2\n\n")
	var out strings.Builder
	r := sse.NewReader(body, sse.Options{Buffer: make([]byte, 32<<10)})
	for {
		b, err := r.Batch()
		if err != nil {
			break
		}
		from := 0
		for e := range b.Events() {
			if string(e.Name) == "ping" {
				out.Write(b.Raw[from:e.Start])
				from = e.End
			}
		}
		out.Write(b.Raw[from:])
	}
	fmt.Printf("%q\n", out.String())
	// Output: "data: 1\n\n: note\ndata: 2\n\n"
}

// The caller distinguishes a server that omits the last blank line from one that
// failed.
func ExampleReader_Last() {
	for _, body := range []string{"data: {\"done\":true}\n", "data: {\"do"} {
		r := sse.NewReader(strings.NewReader(body), sse.Options{})
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			fmt.Println(err)
		}
		if e, ok := r.Last(); ok && strings.HasSuffix(string(e.Data), "}") {
			fmt.Printf("last: %s\n", e.Data)
		} else {
			fmt.Printf("cut off: %s\n", r.Rest())
		}
	}
	// Output:
	// last: {"done":true}
	// cut off: data: {"do
}

func ExampleAppendEvent() {
	var out []byte
	out = sse.AppendComment(out, "keep-alive")
	out = sse.AppendEvent(out, "note", []byte("two\nlines"))
	fmt.Printf("%s", out)
	// Output:
	// : keep-alive
	// event: note
	// data: two
	// data: lines
}
