package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckRefusesWhatRunRefuses checks that Check and Run report the same unusable
// files, all of them at once.
func TestCheckRefusesWhatRunRefuses(t *testing.T) {
	const base = "providers: { p: { protocol: openai-chat, base_url: \"http://127.0.0.1:1/v1\" } }\nmodels: { m: { targets: [p/m] } }\nlisten: 127.0.0.1:0\n"
	cases := []struct{ name, file, want string }{
		{"admin certificate", "admin: { listen: \"127.0.0.1:0\", tls: { cert: DIR/no.crt, key: DIR/no.key } }\n", "admin.tls: open DIR/no.crt: no such file or directory"},
		{"broken admin certificate", "admin: { listen: \"127.0.0.1:0\", tls: { cert: DIR/broken.pem, key: DIR/broken.pem } }\n", "admin.tls: tls: failed to find any PEM data"},
		{"certificate authority of etcd", "discover: { networks: [10.0.0.0/8], etcd: { endpoints: [\"https://127.0.0.1:1\"], ca: DIR/no.crt } }\ndata: DIR/data\n", "etcd: ca: open DIR/no.crt: no such file or directory"},
		{"certificate authority of Redis", "store: sqlite\nredis: { url: \"rediss://127.0.0.1:1\", ca: DIR/broken.pem }\ndata: DIR/data\n", "redis.ca: DIR/broken.pem has no certificate"},
		{"certificate for Redis", "store: sqlite\nredis: { url: \"rediss://127.0.0.1:1\", cert: DIR/no.crt, key: DIR/no.key }\ndata: DIR/data\n", "redis.cert and redis.key: open DIR/no.crt: no such file or directory"},
		{"pepper", "store: \"sqlite:DIR/keys.db\"\ndata: DIR/data\n", "there is no pepper in DIR/data/pepper"},
		{"two files", "store: \"sqlite:DIR/keys.db\"\ndata: DIR/data\nadmin: { listen: \"127.0.0.1:0\", tls: { cert: DIR/no.crt, key: DIR/no.key } }\n", "admin.tls: open DIR/no.crt|there is no pepper in DIR/data/pepper"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"broken.pem", "keys.db"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			file := filepath.Join(dir, "isogloss.yaml")
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(base+c.file, "DIR", dir)), 0o600); err != nil {
				t.Fatal(err)
			}
			o := Options{Config: file, Env: func(string) (string, bool) { return "", false }, Log: new(bytes.Buffer)}
			_, checked := o.Check()
			ran := Run(t.Context(), o)
			if checked == nil || ran == nil || checked.Error() != ran.Error() {
				t.Fatalf("check reports %v, and run %v", checked, ran)
			}
			for _, want := range strings.Split(strings.ReplaceAll(c.want, "DIR", dir), "|") {
				if !strings.Contains(checked.Error(), want) {
					t.Errorf("check reports %v, want %s", checked, want)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
				t.Error("the check made the data folder")
			}
		})
	}
}
