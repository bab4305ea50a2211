package main

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const workersPrefix = "/isogloss/workers/"

// register writes a value under the id of a worker.
func (s *stores) register(ctx context.Context, id, value string) {
	_, err := s.keys.Put(ctx, workersPrefix+id, value)
	testrig.NoError(err)
}

// forgedWorkers are records in etcd that the gateway must not use; PORT is that of a trap.
// Each offers the model w-NAME, unless it names another.
func forgedWorkers() map[string]string {
	row := func(id, url, more string) string {
		return fmt.Sprintf(`{"id":%q,"model":"w-%s","url":%q,"protocol":"openai-chat"%s}`, id, id, url, more)
	}
	const here = "http://127.0.0.1:PORT/v1"
	return map[string]string{
		"outside":      row("outside", "http://127.77.0.1:PORT/v1", ""),
		"metadata":     row("metadata", "http://169.254.169.254/v1", ""),
		"any":          row("any", "http://0.0.0.0:PORT/v1", ""),
		"mapped":       row("mapped", "http://[::ffff:127.77.0.1]:PORT/v1", ""),
		"name":         row("name", "http://localhost:PORT/v1", ""),
		"user":         row("user", "http://user:password@127.0.0.1:PORT/v1", ""),
		"query":        row("query", here+"?key=x", ""),
		"fragment":     row("fragment", here+"#x", ""),
		"scheme":       row("scheme", "file:///etc/passwd", ""),
		"port":         row("port", "http://127.0.0.1:99999/v1", ""),
		"protocol":     strings.Replace(row("protocol", here, ""), "openai-chat", "telnet", 1),
		"capacity":     row("capacity", here, `,"capacity":-1`),
		"overflow":     row("overflow", here, `,"capacity":99999999999999999999`),
		"weight":       row("weight", here, `,"weight":9223372036854775807`),
		"other-id":     row("someone-else", here, ""),
		"twice":        row("twice", here, `,"url":"`+here+`"`),
		"star":         `{"id":"star","model":"*","url":"` + here + `","protocol":"openai-chat"}`,
		"star-prefix":  `{"id":"star-prefix","model":"w-star*","url":"` + here + `","protocol":"openai-chat"}`,
		"of-the-file":  `{"id":"of-the-file","model":"chat/m","url":"` + here + `","protocol":"openai-chat"}`,
		"not-listed":   `{"id":"not-listed","model":"not-listed","url":"` + here + `","protocol":"openai-chat"}`,
		"dots":         `{"id":"dots","model":"w-/../x","url":"` + here + `","protocol":"openai-chat"}`,
		"control":      `{"id":"control","model":"w-\u000a","url":"` + here + `","protocol":"openai-chat"}`,
		"utf8":         "{\"id\":\"utf8\",\"model\":\"w-\xff\xfe\",\"url\":\"" + here + "\",\"protocol\":\"openai-chat\"}",
		"deep":         `{"id":"deep","model":` + strings.Repeat("[", 30_000),
		"null":         "null",
		"empty":        "",
		"number":       "1e999",
		"long-model":   row("long-model", here, `,"name":"`+strings.Repeat("n", 60_000)+`"`),
		"long-engine":  row("long-engine", here, `,"engine":"`+strings.Repeat("e", 60_000)+`"`),
		"64KiB":        row("64KiB", here, `,"other":"`+strings.Repeat("o", 70_000)+`"`),
		"1.4MB":        row("1.4MB", here, `,"other":"`+strings.Repeat("o", 1_400_000)+`"`),
		"members":      row("members", here, `,"x":1`+strings.Repeat(`,"y":1`, 5000)),
		"surrogate":    strings.Replace(row("surrogate", here, ""), "w-surrogate", `w-\ud800`, 1),
		"trailing":     row("trailing", here, "") + row("trailing", here, ""),
		"model-object": `{"id":"model-object","model":{"a":"w-x"},"url":"` + here + `","protocol":"openai-chat"}`,
	}
}

// registerForged writes all forged workers before the gateway starts.
func (s *stores) registerForged(ctx context.Context, t *trap) {
	for id, value := range forgedWorkers() {
		s.register(ctx, id, strings.ReplaceAll(value, "PORT", t.port()))
	}
}

// serveWorker registers a valid worker, which is the upstream, and waits until it is used.
func (r *rig) serveWorker(ctx context.Context, id string) {
	r.stores.register(ctx, id, fmt.Sprintf(`{"id":%q,"model":"w-%s","url":%q,"protocol":"openai-chat"}`, id, id, r.up.URL(id, testrig.Chat)))
	testrig.NoError(testrig.Until(ctx, storeRecover, "the worker "+id+" is not used", func() bool { return r.askWorker(ctx, "w-"+id).status == 200 }))
}

func (r *rig) askWorker(ctx context.Context, model string) *evidence {
	return r.send(ctx, request{path: "/v1/chat/completions", key: "full", body: fmt.Sprintf(`{"model":%s,"messages":[{"role":"user","content":"hi"}]}`, testrig.Quote(model))})
}

func etcdAttacks() (all []attack) {
	for id := range forgedWorkers() {
		model := map[string]string{"star": "w-anything", "star-prefix": "w-starred", "of-the-file": "chat/m", "not-listed": "not-listed", "dots": "w-/../x", "other-id": "w-someone-else"}[id]
		if model == "" {
			model = "w-" + id
		}
		all = append(all, onStore("etcd/worker/"+id, func(ctx context.Context, r *rig, e *evidence) {
			before := r.trap.calls.Load()
			got := r.askWorker(ctx, model)
			e.status, e.got = got.status, got.got
			e.problem(r.trap.calls.Load() > before, "the gateway called a worker that is not allowed")
			want := id == "of-the-file"
			e.problem((got.status == 200) != want || got.status >= 500, "status %d: %s", got.status, testrig.Clip(got.body, 200))
		}))
	}
	crowd := func(ctx context.Context, r *rig, n, parallel int, value func(i int) string) {
		const together = 100
		testrig.Each((n+together-1)/together, parallel, func(page int) {
			var ops []clientv3.Op
			for i := page * together; i < min(n, (page+1)*together); i++ {
				ops = append(ops, clientv3.OpPut(fmt.Sprintf("%scrowd-%06d", workersPrefix, i), value(i)))
			}
			_, _ = r.stores.keys.Txn(ctx).Then(ops...).Commit() // a missing one is not missed
		})
	}
	clean := func(ctx context.Context, r *rig) {
		_, err := r.stores.keys.Delete(ctx, workersPrefix+"crowd-", clientv3.WithPrefix())
		testrig.NoError(err)
	}
	return append(all,
		onStore("etcd/1.4MB-each", func(ctx context.Context, r *rig, _ *evidence) {
			defer clean(ctx, r)
			for i := range 60 {
				r.stores.register(ctx, fmt.Sprintf("crowd-%d", i), strings.Repeat("x", 1_400_000))
			}
			r.serveWorker(ctx, "after-large")
		}),
		onStore("etcd/long-keys", func(ctx context.Context, r *rig, _ *evidence) {
			defer clean(ctx, r)
			for i := range 200 {
				r.stores.register(ctx, fmt.Sprintf("crowd-%d-%s", i, strings.Repeat("k", 300_000)), "{}")
			}
			r.serveWorker(ctx, "after-keys")
		}),
		onStore("etcd/101000-keys", func(ctx context.Context, r *rig, _ *evidence) {
			r.serveWorker(ctx, "before-crowd")
			defer clean(ctx, r)
			crowd(ctx, r, 101_000, 4, func(int) string { return "{}" })
			testrig.NoError(testrig.Until(ctx, storeRecover, "a worker that was there is lost", func() bool { return r.askWorker(ctx, "w-before-crowd").status == 200 }))
		}),
		onStore("etcd/churn", func(ctx context.Context, r *rig, _ *evidence) {
			defer clean(ctx, r)
			for i := range 300 {
				r.stores.register(ctx, "crowd-0", fmt.Sprintf(`{"id":"crowd-0","model":"w-churn-%d","url":"http://127.0.0.1:1/v1","protocol":"openai-chat"}`, i))
			}
			r.serveWorker(ctx, "after-churn")
		}),
		onStore("etcd/frozen", func(ctx context.Context, r *rig, e *evidence) {
			r.serveWorker(ctx, "before-freeze")
			r.stores.etcd.Freeze()
			defer r.stores.etcd.Thaw()
			testrig.Pause(ctx, 0)
			got := r.askWorker(ctx, "w-before-freeze")
			e.problem(got.status != 200, "a known worker is not used while etcd is frozen: status %d", got.status)
		}),
		onStore("etcd/older-history", func(ctx context.Context, r *rig, e *evidence) {
			r.serveWorker(ctx, "before-wipe")
			r.stores.etcd.Kill()
			testrig.NoError(r.stores.etcd.Wipe())
			testrig.NoError(r.stores.etcd.Start())
			got := r.askWorker(ctx, "w-before-wipe")
			e.problem(got.status != 200, "a worker is lost with the first answer of an empty etcd: status %d", got.status)
			r.serveWorker(ctx, "after-wipe")
		}),
	)
}
