package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/isogloss-gateway/isogloss/gateway"
)

// startVendor starts a server of Chat Completions that stands for a vendor's.
func startVendor() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`)
	}))
}

const greeting = `{"model":"fast","max_tokens":100,"messages":[{"role":"user","content":"Say hello."}]}`

// Have the gateway answer the requests of a client in the same process. An SDK takes the client with its option for an
// HTTP client.
func ExampleGateway_Client() {
	vendor := startVendor()
	defer vendor.Close()
	g, err := gateway.New([]byte(`
providers:
  vendor: { protocol: openai-chat, base_url: "`+vendor.URL+`/v1", api_key: "${VENDOR_KEY}" }
models:
  fast: { targets: [vendor/m] }
`), gateway.Options{Log: io.Discard, Env: func(name string) (string, bool) { return "sk-1", name == "VENDOR_KEY" }})
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	resp, err := g.Client().Post("https://api.anthropic.com/v1/messages", "application/json", strings.NewReader(greeting))
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	fmt.Println(resp.Status, resp.Header.Get("Isogloss-Fidelity"))
	fmt.Println(strings.Contains(string(text), `"content":[{"type":"text","text":"Hello."}]`))
	// Output:
	// 200 OK exact
	// true
}

// Serve the gateway's endpoints beside others.
func ExampleGateway_ServeHTTP() {
	vendor := startVendor()
	defer vendor.Close()
	g, err := gateway.New([]byte(`
keys: [ sk-of-the-clients ]
providers:
  vendor: { protocol: openai-chat, base_url: "`+vendor.URL+`/v1", auth: none }
models:
  fast: { targets: [vendor/m] }
`), gateway.Options{Log: io.Discard})
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())

	mux := http.NewServeMux()
	mux.Handle("/v1/", g)
	server := httptest.NewServer(mux)
	defer server.Close()

	req, err := http.NewRequest(http.MethodGet, server.URL+"/v1/models", nil)
	if err != nil {
		panic(err)
	}
	for _, key := range []string{"wrong", "sk-of-the-clients"} {
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			panic(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// 401 Unauthorized
	// 200 OK
}
