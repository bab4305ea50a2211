package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// canary is a text that must appear nowhere.
type canary struct {
	name, text string
	clients    bool // clients may see it
}

// place is a text to search.
type place struct {
	name string
	text []byte
}

// runSecrets is S5: no secret leaves the place where it is needed.
func runSecrets(ctx context.Context, s *stage) {
	began := time.Now()
	client := s.newKey(ctx, "s5", limits{budget: 100_000_000, requests: 1_000_000})
	operator := s.newKey(ctx, "s5-operator", limits{role: "owner"})
	s.traffic(ctx, client, operator)
	testrig.Pause(ctx, 3*time.Second) // spools are drained and snapshots written by then
	canaries := []canary{
		{name: "the provider's secret", text: providerSecret}, {name: "the pepper", text: pepperText}, {name: "a prompt", text: promptCanary},
		{name: "an upstream's error", text: errorCanary, clients: true},
		{name: "a client's key", text: client.Key}, {name: "a client's secret", text: secretOf(client)},
		{name: "an operator's key", text: operator.Key}, {name: "an operator's secret", text: secretOf(operator)},
	}
	places := s.places(ctx, operator)
	var wrong []string
	for _, u := range s.up.attempts.List() {
		wrong = append(wrong, testrig.Unless(u.bearer == providerSecret, "an upstream got another credential than its own: %q", u.bearer))
	}
	size := 0
	for _, p := range places {
		size += len(p.text)
		wrong = append(wrong, testrig.Unless(len(p.text) > 0 || strings.HasPrefix(p.name, "file"), "%s is empty: nothing was searched", p.name))
		for _, c := range canaries {
			found := bytes.Contains(p.text, []byte(c.text)) && (!c.clients || p.name != receivedErrors)
			wrong = append(wrong, testrig.When(found, "%s holds %s", p.name, c.name))
		}
	}
	s.Check("s5/canaries", fmt.Sprintf("%d secrets in %d places of %d KB together", len(canaries), len(places), size>>10), began, wrong...)
}

// secretOf returns the secret part of a key.
func secretOf(k key) string { return k.Key[strings.LastIndex(k.Key, "_")+1:] }

// traffic makes the gateway write as much as it can in both lanes: answers, errors, wrong keys,
// disconnects, a killed node.
func (s *stage) traffic(ctx context.Context, client, operator key) {
	wrongKey := client
	wrongKey.Key = client.Key[:len(client.Key)-7] + "x" + client.Key[len(client.Key)-6:]
	for i := range 24 * nodes {
		w := request{key: client, model: dear, node: i % nodes, stream: i%2 == 0, translated: i >= 12*nodes, more: promptCanary}
		w.Tag, w.Say = tag("s5"), 5
		switch i / nodes % 12 {
		case 1:
			w.model, w.Fault = "both", errors500
		case 2:
			w.model, w.Fault = "alone", refuses
		case 3:
			w.model, w.Fault, w.After, w.stream = "alone", cuts, 2, true
		case 4:
			w.key = wrongKey
		case 5:
			w.key = operator // it has no access to models
		case 6:
			w.leave, w.Every, w.stream = 2, 20*time.Millisecond, true
		case 7:
			w.model = "no-such-model"
		case 8:
			w.once = w.Tag
		}
		s.send(ctx, w)
	}
	for node := range s.nodes {
		_, _, refused := s.api(ctx, client, apiCall{node: node, path: apiKeys}) // a client key
		_, _, invalid := s.api(ctx, operator, apiCall{node, apiKeys, `{"name":17}`})
		testrig.NoError(errors.Join(refused, invalid))
	}
	s.nodes[2].Kill()
	testrig.NoError(s.nodes[2].Start(ctx))
}

// receivedErrors is the place of the texts that clients received.
const receivedErrors = "errors that clients received"

// places returns all texts that others may read.
func (s *stage) places(ctx context.Context, operator key) (all []place) {
	paths := testrig.Must(s.readable(ctx, operator))
	for i, g := range s.nodes {
		all = append(all, place{"log of " + g.Name, []byte(g.Log())})
		for _, path := range append([]string{"/metrics"}, paths...) {
			status, body, err := s.api(ctx, operator, apiCall{node: i, path: path})
			testrig.NoError(err)
			all = append(all, place{fmt.Sprintf("%s%s (%d)", g.Name, path, status), body})
		}
		all = append(all, testrig.Must(filesUnder(g.Data))...)
	}
	var answers []byte
	for _, a := range s.exchanges.List() {
		answers = append(answers, a.body...)
	}
	return append(append(all, place{receivedErrors, answers}), s.dumps(ctx)...)
}

func filesUnder(dir string) (all []place, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		all = append(all, place{"file " + filepath.Base(path), text})
		return err
	})
	return all, err
}

// dumps returns the content of the stores, by their own tools.
func (s *stage) dumps(ctx context.Context) (all []place) {
	host, port, _ := strings.Cut(s.redis.Addr, ":")
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s.put(ctx, worker, "w1") // so that etcd is not empty
	for _, t := range []struct {
		name string
		args []string
	}{
		{"dump of PostgreSQL", []string{"pg_dump", "--inserts", s.postgres.URL}},
		{"dump of etcd", []string{"etcdctl", "--endpoints", s.etcd.URL, "get", "", "--prefix"}},
		{"save of Redis", []string{"redis-cli", "-h", host, "-p", port, "config", "set", "rdbcompression", "no"}},
		{"save of Redis", []string{"redis-cli", "-h", host, "-p", port, "save"}},
	} {
		all = append(all, place{t.name, testrig.Must(output(ctx, t.args...))})
	}
	return append(all, place{"dump of Redis", testrig.Must(os.ReadFile(filepath.Join(s.redis.Dir(), "dump.rdb")))})
}
