package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// canary is something that may stand nowhere.
type canary struct{ name, text string }

// place is a text that is searched.
type place struct {
	name string
	text []byte
}

// runCanaries is S5.
func runCanaries(ctx context.Context, s *stage) error {
	began := time.Now()
	client, err := s.newKey(ctx, "s5", limits{budget: 100_000_000, requests: 1_000_000})
	if err != nil {
		return err
	}
	operator, err := s.newKey(ctx, "s5-operator", limits{role: "owner"})
	if err != nil {
		return err
	}
	if err := s.traffic(ctx, client, operator); err != nil {
		return err
	}
	pause(ctx, 3*time.Second) // spools are drained, snapshots written
	canaries := []canary{
		{"the provider's secret", providerSecret}, {"the pepper", pepperText}, {"a prompt", promptCanary},
		{"a client's key", client.Key}, {"a client's secret", secretOf(client)},
		{"an operator's key", operator.Key}, {"an operator's secret", secretOf(operator)},
	}
	places, err := s.places(ctx, operator)
	if err != nil {
		return err
	}
	var wrong []string
	for _, u := range s.up.history.list() {
		wrong = append(wrong, unless(u.bearer == providerSecret, "an upstream was shown another secret than its own: %q", u.bearer))
	}
	size := 0
	for _, p := range places {
		size += len(p.text)
		wrong = append(wrong, unless(len(p.text) > 0 || strings.HasPrefix(p.name, "file"), "%s is empty: nothing was searched", p.name))
		for _, c := range canaries {
			at := bytes.Index(p.text, []byte(c.text))
			wrong = append(wrong, unless(at < 0, "%s holds %s", p.name, c.name))
		}
	}
	s.check("s5/canaries", fmt.Sprintf("%d secrets in %d places of %d KB together", len(canaries), len(places), size>>10), began, wrong...)
	return nil
}

// secretOf is what follows the public part of a key.
func secretOf(k key) string { return k.Key[strings.LastIndex(k.Key, "_")+1:] }

// traffic is what may make somebody write something down: answers, errors, wrong
// keys, a client that leaves, a node that dies.
func (s *stage) traffic(ctx context.Context, client, operator key) error {
	wrongKey := client
	wrongKey.Key = client.Key[:len(client.Key)-7] + "x" + client.Key[len(client.Key)-6:]
	for i := range 12 * nodes {
		w := wish{key: client, model: dear, node: i % nodes, stream: i%2 == 0, more: promptCanary}
		w.Tag, w.Say = tag("s5"), 5
		switch i / nodes {
		case 1:
			w.model, w.Fault = "both", errors500
		case 2:
			w.model, w.Fault = "alone", refuses
		case 3:
			w.model, w.Fault, w.After, w.stream = "alone", cuts, 2, true
		case 4:
			w.key = wrongKey
		case 5:
			w.key = operator // it opens no model
		case 6:
			w.leave, w.Every, w.stream = 2, 20*time.Millisecond, true
		case 7:
			w.model = "no-such-model"
		case 8:
			w.once = w.Tag
		}
		s.ask(ctx, w)
	}
	for node := range s.nodes {
		if _, _, err := s.api(ctx, client, order{node: node, path: apiKeys}); err != nil { // a client is no operator
			return err
		}
		if _, _, err := s.api(ctx, operator, order{node, apiKeys, `{"name":17}`}); err != nil {
			return err
		}
	}
	s.nodes[2].kill()
	return s.nodes[2].start(ctx)
}

// places are all texts that somebody else may come to read.
func (s *stage) places(ctx context.Context, operator key) ([]place, error) {
	var all []place
	paths, err := s.readable(ctx, operator)
	if err != nil {
		return nil, err
	}
	for i, g := range s.nodes {
		all = append(all, place{"log of " + g.name, []byte(g.log())})
		for _, path := range append([]string{"/metrics"}, paths...) {
			status, said, err := s.api(ctx, operator, order{node: i, path: path})
			if err != nil {
				return nil, err
			}
			all = append(all, place{fmt.Sprintf("%s%s (%d)", g.name, path, status), said})
		}
		files, err := filesUnder(g.data)
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	var answers []byte
	for _, a := range s.clients.history.list() {
		answers = append(answers, a.body...)
	}
	all = append(all, place{"errors that clients got", answers})
	dumps, err := s.dumps(ctx)
	return append(all, dumps...), err
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

// dumps are the stores, by their own tools.
func (s *stage) dumps(ctx context.Context) ([]place, error) {
	host, port, _ := strings.Cut(s.redis.Addr, ":")
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tools := []struct {
		name string
		args []string
	}{
		{"dump of PostgreSQL", []string{"pg_dump", "--inserts", s.postgres.URL}},
		{"dump of etcd", []string{"etcdctl", "--endpoints", s.etcd.URL, "get", "", "--prefix"}},
		{"save of Redis", []string{"redis-cli", "-h", host, "-p", port, "config", "set", "rdbcompression", "no"}},
		{"save of Redis", []string{"redis-cli", "-h", host, "-p", port, "save"}},
	}
	if err := s.put(ctx, worker, "w1"); err != nil { // an empty etcd would prove nothing
		return nil, err
	}
	var all []place
	for _, t := range tools {
		cmd := exec.CommandContext(ctx, t.args[0], t.args[1:]...)
		cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
		said, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(t.args, " "), err)
		}
		all = append(all, place{t.name, said})
	}
	text, err := os.ReadFile(filepath.Join(s.redis.Dir(), "dump.rdb"))
	return append(all, place{"dump of Redis", text}), err
}
