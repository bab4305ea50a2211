package relay

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// A body may take this long to arrive, and longer the larger it is.
const (
	bodyPatience = 30 * time.Second
	bodySlowest  = 64 << 10 // bytes a second
	firstBodyCap = 1 << 20  // a client's claim of its size is believed up to here
)

// accept reads the request's body and indexes it.
func (r *Relay) accept(x *exchange) *llm.Error {
	if x.client.Method != http.MethodPost {
		x.out.header().Set("Allow", "POST")
		return wrongMethod(x.client, "POST")
	}
	if err := checkMedia(x.client.Header); err != nil {
		return err
	}
	body, err := readBody(x)
	if err != nil {
		return err
	}
	x.seen.BytesIn = int64(len(body))
	ask, err := x.endpoint.project(body)
	if err != nil {
		return err
	}
	x.ask = ask
	x.seen.Requested, x.seen.Stream = ask.model, ask.stream
	return r.writeOut(x)
}

// checkMedia wants JSON and says so. The check is also what keeps web pages out:
// a browser sends a page's request to another origin unasked only where it has
// one of three other content types.
func checkMedia(h http.Header) *llm.Error {
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return &llm.Error{Kind: llm.UnsupportedMedia, Message: "compressed request bodies are not read; send the body without Content-Encoding"}
	}
	media := h.Get("Content-Type")
	if media == "application/json" {
		return nil
	}
	if m, _, err := mime.ParseMediaType(media); err == nil && m == "application/json" {
		return nil
	}
	return &llm.Error{Kind: llm.UnsupportedMedia, Message: "the body must be JSON; send 'Content-Type: application/json'"}
}

func readBody(x *exchange) ([]byte, *llm.Error) {
	limit := x.state.Limits.Body
	size := x.client.ContentLength
	if size > limit {
		x.out.header().Set("Connection", "close") // the body will not be read
		return nil, tooLarge(limit)
	}
	patience := bodyPatience + time.Duration(max(size, limit/8)/bodySlowest)*time.Second
	x.out.readDeadline(time.Now().Add(patience))
	defer x.out.readDeadline(time.Time{})

	body := make([]byte, 0, min(max(size, 512), firstBodyCap)+1)
	reader := http.MaxBytesReader(x.out.w, x.client.Body, limit)
	for {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := reader.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil {
			return body, bodyError(x, err, limit)
		}
	}
}

func bodyError(x *exchange, err error, limit int64) *llm.Error {
	var over *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &over):
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &llm.Error{Kind: llm.Timeout, Status: http.StatusRequestTimeout, Code: "request_timeout", Message: "the request's body took too long to arrive"}
	case x.client.Context().Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return clientGone(err)
	}
	return &llm.Error{Kind: llm.InvalidRequest, Message: "the request's body could not be read", Cause: err}
}

func tooLarge(limit int64) *llm.Error {
	return &llm.Error{Kind: llm.TooLarge, Message: "the request's body is larger than this gateway's limit of " + sizeText(limit) + "; send less, or raise limits.body"}
}
