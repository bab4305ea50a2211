package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/isogloss-gateway/isogloss/internal/base/heap"
)

// newBareCommand is what everything is compared with: Go's reverse proxy, with the settings of the gateway's garbage
// collector and nothing else in the process. GOGC in the environment sets the collector of both.
func newBareCommand() *cobra.Command {
	var at endpoint
	var metrics, to, up string
	cmd := &cobra.Command{Use: "bare", Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		target, err := url.Parse(to)
		if err != nil {
			return err
		}
		heap.Tune(cmd.Context())
		go func() { _ = serve(cmd.Context(), endpoint{listen: metrics, http: h1}, http.HandlerFunc(tellRuntime)) }()
		return serve(cmd.Context(), at, newBare(target, up))
	}}
	at.flags(cmd)
	cmd.Flags().StringVar(&metrics, "metrics", "", "address of the runtime's counts")
	cmd.Flags().StringVar(&to, "to", "", "the upstream")
	cmd.Flags().StringVar(&up, "up", h1, "its version of HTTP")
	return cmd
}

// newBare reads the request's body before it sends it on. A ReverseProxy that does
// not cuts about one burst in a hundred, where the answer comes before the body has
// been read to its end; a gateway has to read it anyway, to know the model.
func newBare(target *url.URL, version string) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			Protocols:           protocols(version),
			TLSClientConfig:     trusting(),
			DisableCompression:  true,
			MaxIdleConns:        4096,
			MaxIdleConnsPerHost: 1024,
			IdleConnTimeout:     90 * time.Second,
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}

// tellRuntime says what a gateway's /metrics would, on a listener of its own.
func tellRuntime(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Fprintf(w, "go_memstats_mallocs_total %d\ngo_memstats_alloc_bytes_total %d\ngo_memstats_heap_inuse_bytes %d\ngo_memstats_stack_inuse_bytes %d\n",
		m.Mallocs, m.TotalAlloc, m.HeapInuse, m.StackInuse)
}
