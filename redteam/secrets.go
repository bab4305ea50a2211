package main

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// echoPlaces are where a hostile or careless upstream repeats a secret of the operator.
func echoPlaces() map[string]func(secret string) testrig.Script {
	quoted := func(s string) string { return strings.ReplaceAll(s, `\\u`, `\u`) }
	errorBody := func(status int) func(string) testrig.Script {
		return func(secret string) testrig.Script {
			return func(c *testrig.Call) bool {
				return c.Respond(status, testrig.JSONMedia, quoted(c.Dialect.ErrorBody(status, "the key "+secret+" is not valid here")))
			}
		}
	}
	return map[string]func(string) testrig.Script{
		"error-400": errorBody(400),
		"error-401": errorBody(401),
		"error-500": errorBody(500),
		"error-plain": func(secret string) testrig.Script {
			return func(c *testrig.Call) bool { return c.Respond(500, "text/plain", "no access with "+secret) }
		},
		"error-event": func(secret string) testrig.Script {
			return func(c *testrig.Call) bool {
				if !c.Stream {
					return c.Respond(http.StatusOK, testrig.JSONMedia, quoted(c.Dialect.ErrorBody(500, "no access with "+secret)))
				}
				s := c.Reply("up").Stream()
				return c.StartStream() && c.Chunks(append(append(s.Head, s.Words[:2]...), quoted(c.Dialect.ErrorEvent(500, "no access with "+secret, len(s.Head)+2)))...) && c.End()
			}
		},
		"header": func(secret string) testrig.Script {
			return bodyWith("X-Request-Id", secret, "Request-Id", secret, "X-Ratelimit-Limit-Requests", secret, "Openai-Processing-Ms", secret, "Retry-After", secret)
		},
	}
}

// echoedForms are the forms of a secret in which an upstream repeats it.
func echoedForms(secret string) map[string]string {
	all := map[string]string{}
	for i, form := range secretForms(secret) {
		name := []string{"plain", "query", "path", "unicode-dash", "percent-dash", "percent-dash-lower", "unicode", "hex", "hex-upper", "base64", "base64url", "base64-raw", "upper-escape"}[i]
		all[name] = form
	}
	all["bearer"] = "Bearer " + secret
	return all
}

func secretAttacks() (all []attack) {
	for which, secret := range map[string]string{"key": providerKey, "header": headerSecret, "query": querySecret} {
		for form, text := range echoedForms(secret) {
			for place, script := range echoPlaces() {
				if place == "header" && strings.Contains(text, `\u`) {
					continue
				}
				for _, p := range hostilePairs()[:2] {
					for _, stream := range []bool{false, true} {
						if stream != (place == "error-event") {
							continue
						}
						name := fmt.Sprintf("secrets/%s/%s/%s/%s-%s", place, which, form, targetName(p[0]), targetName(p[1]))
						h := hostileUpstream{name: fmt.Sprintf("%s-%s-%s", place, which, form), script: script(text)}
						all = append(all, attack{name: name, do: callHostile(h, p, stream), holds: []oracle{serves(200, 400, 401, 403, 500, 502, 503), logsNoSecret}})
					}
				}
			}
		}
	}
	// Every output of the gateway, after all of the above.
	for name, read := range outputs() {
		do := func(ctx context.Context, r *rig) *evidence {
			text := read(ctx, r)
			e := &evidence{sent: "read " + name, note: fmt.Sprintf("%d bytes", len(text))}
			e.problem(text == "", "%s is empty: nothing was searched", name)
			e.problem(r.findSecrets(name, text) != "", "%s", r.findSecrets(name, text))
			for who, key := range r.keys {
				for _, form := range secretForms(key[strings.LastIndex(key, "_")+1:]) {
					e.problem(strings.Contains(text, form), "%s has the key %s", name, who)
				}
			}
			for _, c := range privateCanaries() {
				e.problem(strings.Contains(text, c), "%s has %s", name, c)
			}
			return e
		}
		unproven := map[string]string{"process-title": "the rig gives the weak gateway its arguments, which have no secret"}[name]
		all = append(all, attack{name: "secrets/output/" + name, do: do, unproven: unproven})
	}
	return all
}

// logsNoSecret fails if the log has a secret of the operator.
func logsNoSecret(r *rig, _ *evidence) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.gateway.Log()
	start := min(r.searched, len(log))
	r.searched = len(log)
	return r.findSecrets("the log", log[start:])
}

// outputs are the places where a secret could be found.
func outputs() map[string]func(context.Context, *rig) string {
	page := func(path string) func(context.Context, *rig) string {
		return func(ctx context.Context, r *rig) string {
			return r.send(ctx, request{method: "GET", path: path, key: "owner", admin: true}).body
		}
	}
	command := func(args ...string) func(context.Context, *rig) string {
		return func(ctx context.Context, r *rig) string {
			out, err := r.gateway.Command(ctx, append(args, "-c", r.gateway.Config)...)
			if err != nil {
				return err.Error()
			}
			return string(out)
		}
	}
	return map[string]func(context.Context, *rig) string{
		"log":       func(_ context.Context, r *rig) string { return r.gateway.Log() },
		"metrics":   page("/metrics"),
		"targets":   page("/api/v1/targets"),
		"config":    page("/api/v1/config"),
		"audit":     page("/api/v1/audit"),
		"requests":  page("/api/v1/requests"),
		"keys":      page("/api/v1/keys"),
		"openapi":   page("/api/openapi.json"),
		"check":     command("check"),
		"models":    command("models"),
		"keys-list": command("keys", "list", "--json"),
		"explain":   command("explain", "--json", "chat/m"),
		"explain-page": func(ctx context.Context, r *rig) string {
			return r.send(ctx, request{path: "/explain", body: `{"model":"chat/m"}`, admin: true}).got
		},
		"model-list": func(ctx context.Context, r *rig) string {
			return r.send(ctx, request{method: "GET", path: "/v1/models", key: "full"}).got
		},
		"first-page": func(ctx context.Context, r *rig) string {
			return r.send(ctx, request{method: "GET", path: "/", key: "full"}).got
		},
		"files": func(_ context.Context, r *rig) string { return filesUnder(r.gateway.Data) },
		"process-title": func(_ context.Context, r *rig) string {
			return readAll(fmt.Sprintf("/proc/%d/cmdline", r.gateway.PID()))
		},
	}
}

// filesUnder returns the contents of all files below a folder.
func filesUnder(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // a file that vanishes has no content
		if err == nil && d.Type().IsRegular() && filepath.Base(path) != "pepper" {
			b.WriteString(readAll(path))
		}
		return nil
	})
	return b.String()
}

// readAll returns the content of a file, empty if it cannot be read.
func readAll(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// secretConfig is a gateway whose providers have secrets in all places.
func secretConfig(r *rig) *config {
	c := hostileConfig(r)
	for i := range c.providers {
		c.providers[i] = strings.Replace(c.providers[i], `", api_key`, `?code=`+querySecret+`", api_key`, 1)
	}
	return c
}

// privateCanaries are texts of clients and upstreams that nobody else may see.
func privateCanaries() []string { return []string{promptCanary, answerCanary, valueCanary} }

// secretRig sends requests from each dialect to each upstream, so that their texts could be found.
func secretRig(ctx context.Context, o options) (*rig, error) {
	r, err := controlled(start(secretConfig))(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := testrig.Run(func() { r.sendCanaries(ctx) }); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *rig) sendCanaries(ctx context.Context) {
	r.script("private", testrig.Answer(answerCanary))
	r.script("private-error", func(c *testrig.Call) bool {
		return c.Respond(http.StatusBadRequest, testrig.JSONMedia, c.Dialect.ErrorBody(http.StatusBadRequest, "no luck with "+promptCanary))
	})
	for _, d := range dialects() {
		for _, up := range dialects() {
			for _, stream := range []bool{false, true} {
				for _, model := range []string{"private", "private-error"} {
					q := testrig.Query{Model: targetName(up) + "/" + model, System: "say " + promptCanary, Prompt: promptCanary, Stream: stream}
					e := r.send(ctx, request{path: d.Path(q.Model, stream), body: d.Body(q), key: "full", headers: []string{"Anthropic-Version", "2023-06-01", "X-Canary", valueCanary}})
					want := map[string]string{"private": answerCanary, "private-error": promptCanary}[model]
					if !r.weak && !strings.Contains(e.got, want) {
						testrig.NoError(fmt.Errorf("%s on %s: the client has received no %s: %s", d, q.Model, want, testrig.Clip(e.got, 400)))
					}
				}
			}
		}
	}
	r.send(ctx, request{path: "/v1/chat/completions", body: `{"model":"x","messages":"` + promptCanary + `"}`, key: "full"})
}
