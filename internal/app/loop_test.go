package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// freePort returns an address that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	address, err := testrig.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// leadingTo returns the configuration of a gateway whose model "fast" is served by
// another gateway.
func leadingTo(listen, address string) string {
	return fmt.Sprintf("listen: %s\nadmin: { listen: 127.0.0.1:0 }\nproviders: { next: { protocol: openai-chat, base_url: %q, auth: none } }\nmodels: { fast: { targets: [next/fast, next/fast-too] }, fast-too: { targets: [next/fast] } }\n",
		listen, "http://"+address+"/v1")
}

// TestGatewayThatCallsItself checks that a gateway does not connect to its own address, as
// that of a provider or of a discovered worker. A base_url that spells it plainly is a
// mistake of the configuration.
func TestGatewayThatCallsItself(t *testing.T) {
	address := freePort(t)
	_, port, _ := net.SplitHostPort(address)
	list, discovers := discovering(t.TempDir(), "")
	worker := fmt.Sprintf(`[{"id":"w","model":"fast","protocol":"openai-chat","url":"http://%s/v1","name":"fast"}]`, address)
	if err := os.WriteFile(list, []byte(worker), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, configuration := range map[string]string{
		"provider": leadingTo(address, "0.0.0.0:"+port),
		"worker":   strings.Replace(discovers, "127.0.0.1:0", address, 1),
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, configuration, quick())
			resp, err := g.ask("fast", false)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusBadGateway || !strings.Contains(string(body), "loop_detected") {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			g.wait(t)
			if n := strings.Count(g.log.String(), `"msg":"exchange"`); n != 1 {
				t.Errorf("%d requests arrived:\n%s", n, g.log)
			}
		})
	}
}

// TestGatewaysInACircle checks that a request between two gateways that lead to each other
// ends after a few connections.
func TestGatewaysInACircle(t *testing.T) {
	one, two := freePort(t), freePort(t)
	var opened atomic.Int64
	proxy, err := testrig.NewProxy(two, func(requests, responses io.Reader) (io.Reader, io.Reader) {
		opened.Add(1)
		return requests, responses
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	first := start(t, leadingTo(one, proxy.Addr), quick())
	second := start(t, leadingTo(two, one), quick())
	resp, err := first.ask("fast", false)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "loop_detected") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	first.wait(t)
	second.wait(t)
	requests := strings.Count(first.log.String(), `"msg":"exchange"`) + strings.Count(second.log.String(), `"msg":"exchange"`)
	if n := opened.Load(); requests != 5 || n < 1 || n > 2 {
		t.Errorf("%d requests arrived, and %d connections were opened to the second gateway", requests, n)
	}
}

// TestOwnModelList checks that a gateway does not ask itself for a provider's model list.
func TestOwnModelList(t *testing.T) {
	address := freePort(t)
	_, port, _ := net.SplitHostPort(address)
	configuration := strings.Replace(leadingTo(address, "0.0.0.0:"+port), "models: { ", "models: { \"next/*\": { targets: [\"next/*\"] }, ", 1)
	g := start(t, configuration+"log: { level: debug }\n", quick())
	if status, body := g.get(t, g.url+"/v1/models"); status != http.StatusOK || strings.Contains(body, "next/fast") {
		t.Errorf("%d %s", status, body)
	}
	g.log.waitFor(t, "the address is the gateway's own", 1)
}
