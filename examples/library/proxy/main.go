// Proxy lets Anthropic's clients use a server of Chat Completions, and logs the usage of each request.
//
//	go run ./examples/library/proxy -upstream http://127.0.0.1:8000 -model qwen3
package main

import (
	"bytes"
	"flag"
	"io"
	"log"
	"maps"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/translate"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address")
	upstream := flag.String("upstream", "http://127.0.0.1:8000", "URL of the server, without /v1")
	model := flag.String("model", "", "model of the server")
	flag.Parse()
	t, err := translate.New(translate.Options{Client: protocol.Anthropic, Upstream: protocol.OpenAIChat, Model: *model})
	if err != nil {
		log.Fatal(err)
	}
	s := &http.Server{Addr: *listen, Handler: newProxy(t, *upstream, log.Default()), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(s.ListenAndServe())
}

func newProxy(t *translate.Translator, upstream string, logger *log.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := serve(t, upstream, logger, w, r); err != nil {
			write(w, t.Error(err))
		}
	})
}

// serve answers a request. An error means that nothing was written.
func serve(t *translate.Translator, upstream string, logger *log.Logger, w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 32<<20))
	if err != nil {
		return err
	}
	x, err := t.RequestTo(r.URL.Path, r.Header, body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, upstream+x.Path, bytes.NewReader(x.Body))
	if err != nil {
		return err
	}
	req.Header = x.Header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && translate.IsStream(resp.Header) {
		stream := x.Stream(resp.Body)
		if err := stream.Begin(); err != nil {
			return err
		}
		w.Header().Set("Content-Type", x.ContentType())
		_, err := io.Copy(flusher{w}, stream)
		logger.Println("usage", stream.Usage(), "losses", len(x.Losses)+len(stream.Losses()), "error", err)
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return err
	}
	answer, err := x.Response(resp.StatusCode, resp.Header, text)
	if err != nil {
		return err
	}
	logger.Println("usage", answer.Usage, "losses", len(x.Losses)+len(answer.Losses))
	write(w, answer)
	return nil
}

func write(w http.ResponseWriter, answer *translate.Response) {
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body)
}

// flusher sends each write to the client at once.
type flusher struct{ http.ResponseWriter }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}
