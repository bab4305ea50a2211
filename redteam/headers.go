package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// spoof is the value of headers that must reach neither the upstream nor the client.
const spoof = "spoofed-5b1e77"

// spoofedHeaders are headers with which clients claim to be somebody else, or choose what
// proxies and upstreams do.
func spoofedHeaders() []string {
	return strings.Fields(`X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Forwarded-Port X-Forwarded-Prefix X-Forwarded-Server X-Forwarded-Client-Cert
		Forwarded X-Real-IP True-Client-IP CF-Connecting-IP X-Client-IP X-Cluster-Client-IP X-Envoy-External-Address Via X-Original-URL X-Rewrite-URL X-HTTP-Method-Override
		Cookie Proxy-Authorization Proxy-Connection Keep-Alive TE Trailer Api-Key X-Auth-Token X-Amz-Security-Token OpenAI-Organization OpenAI-Project
		X-Operator-Token x-operator-token X_Operator_Token X_Forwarded_For X-Goog-User-Project X-Google-Api-Key Ocp-Apim-Subscription-Key Origin Referer Range If-None-Match
		Isogloss-Target Isogloss-Attempts Isogloss-Upstream-Request-Id Isogloss-Tags X-User X-Remote-User X-Authenticated-User Remote-User X-Original-Host X-Host Max-Forwards`)
}

// lanes are the ways of a request through the gateway.
func lanes() map[string]request {
	return map[string]request{
		"verbatim":  generate("chat", testrig.Chat, "chat").request("full"),
		"translate": generate("chat-msgs", testrig.Chat, "msgs").request("full"),
		"forward":   {path: "/v1/audio/speech", body: `{"model":"tts","input":"hi"}`, key: "full"},
	}
}

func headerAttacks() (all []attack) {
	for lane, q := range lanes() {
		for _, name := range spoofedHeaders() {
			q.headers = []string{name, spoof}
			all = append(all, attack{name: "headers/" + lane + "/" + name, do: sends(q), holds: []oracle{hidesSpoof, ownCredential}})
		}
		for _, list := range []string{"close, authorization", "close, x-operator-token", "close, content-type", "close, content-length", "close, anthropic-version", "close, host, isogloss-target", "close, X-Api-Key"} {
			q.headers = []string{"Connection", list}
			all = append(all, attack{name: "headers/" + lane + "/connection: " + list, do: sends(q), holds: []oracle{keepsOwnHeaders}, unproven: "the weak gateway ignores Connection"})
		}
		for name, lines := range map[string][]string{
			"authorization-twice": {"Authorization", "Bearer " + spoof}, "x-goog-api-key": {"X-Goog-Api-Key", spoof},
			"host": {headerLine, "X-Host-Override: " + spoof}, "authorization-folded-name": {"AUTHORIZATION", "Basic " + spoof},
		} {
			q.headers = lines
			all = append(all, attack{name: "headers/" + lane + "/" + name, do: sends(q), holds: []oracle{hidesSpoof, ownCredential}})
		}
	}
	for name, value := range injections() {
		q := generate("chat", testrig.Chat, "chat").request("full")
		for _, header := range []string{"X-Request-Id", "Isogloss-Criticality", "Isogloss-Fidelity-Mode", "Isogloss-Tags", "Idempotency-Key", "Traceparent", "Anthropic-Version", "OpenAI-Beta"} {
			q.headers = []string{header, value}
			all = append(all, attack{name: "inject/" + header + "/" + name, do: sends(q), holds: []oracle{cleanHeader}})
		}
		p := endpoint{name: "model", dialect: testrig.Chat, path: "/v1/chat/completions"}
		q = p.request("full")
		q.body = `{"model":` + testrig.Quote("chat/"+value+"\r\nX-Injected: yes") + `,"messages":[{"role":"user","content":"hi"}]}`
		all = append(all, attack{name: "inject/model/" + name, do: sends(q), holds: []oracle{cleanHeader}})
	}
	return all
}

// injections are header values that become a header of their own if they are written
// without care.
func injections() map[string]string {
	return map[string]string{
		"percent": "a%0d%0aX-Injected: yes", "unicode": "a\u010d\u010aX-Injected: yes", "escape": `a\r\nX-Injected: yes`, "comma": `a, X-Injected: yes`, "line-separator": "a\u2028X-Injected: yes",
	}
}

// hidesSpoof fails if the spoofed value reached the upstream or came back.
func hidesSpoof(_ *rig, e *evidence) string {
	for _, s := range e.upstream {
		for name, values := range s.header {
			if strings.Contains(strings.Join(values, " "), spoof) {
				return "the upstream received the header " + name
			}
		}
		if strings.Contains(s.uri, spoof) {
			return "the upstream received it in the path " + s.uri
		}
	}
	return lacks(spoof)(nil, e)
}

// ownCredential fails if the upstream received another credential than the provider's.
func ownCredential(_ *rig, e *evidence) string {
	for _, s := range e.upstream {
		var keys []string
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"} {
			keys = append(keys, s.header.Values(name)...)
		}
		if len(keys) != 1 || strings.TrimPrefix(keys[0], "Bearer ") != providerKey {
			return fmt.Sprintf("the upstream received the credentials %d: %q", len(keys), keys)
		}
	}
	return ""
}

// keepsOwnHeaders fails if the headers that the gateway sets are missing upstream.
func keepsOwnHeaders(r *rig, e *evidence) string {
	if e.status != http.StatusOK && e.status < 400 {
		return fmt.Sprintf("status %d", e.status)
	}
	for _, s := range e.upstream {
		if s.header.Get("X-Operator-Token") != headerSecret {
			return "the operator's header is missing"
		}
		if !strings.HasSuffix(strings.Split(s.uri, "?")[0], "/speech") && s.header.Get("Content-Type") != testrig.JSONMedia {
			return "the content type is missing"
		}
	}
	return ownCredential(r, e)
}

// cleanHeader fails if a value became a header, or a header has a control character.
func cleanHeader(_ *rig, e *evidence) string {
	head, _, _ := strings.Cut(e.got, "\r\n\r\n")
	head = strings.ReplaceAll(head, "\r\n", "|")
	i := strings.IndexFunc(head, func(c rune) bool { return c < ' ' || c > '~' })
	switch {
	case i >= 0:
		return fmt.Sprintf("the response's header has a control character: %q", head[i:])
	case e.header.Get("X-Injected") != "":
		return "the response has an injected header"
	}
	for _, s := range e.upstream {
		if s.header.Get("X-Injected") != "" {
			return "the upstream received an injected header"
		}
	}
	return ""
}

// addressed returns a client address for the nth attack, so that limits on one address do
// not hide what another attack would find.
func addressed(n int) string { return fmt.Sprintf("127.%d.%d.%d", 1+n/60000, n/250%240, 1+n%250) }
