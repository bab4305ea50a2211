package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// unsafe is a configuration that the gateway must refuse.
type unsafe struct {
	name string
	yaml string // the whole file; UP is a valid base URL
}

// okProviders are the rest of an otherwise valid file.
const okProviders = "\nproviders:\n  chat: { protocol: openai-chat, base_url: \"UP\", api_key: sk-0123456789abcdef }\nmodels:\n  m: { targets: [chat/m] }\n"

// unsafeFiles returns the configurations.
func unsafeFiles() (all []unsafe) {
	top := func(name, lines string) { all = append(all, unsafe{name, lines + okProviders}) }
	base := func(name, url string) {
		all = append(all, unsafe{"base_url/" + name, strings.Replace(okProviders, "UP", url, 1)})
	}
	for _, address := range []string{"0.0.0.0:18080", ":18080", "[::]:18080", "192.0.2.1:18080", "example.com:18080", "[::ffff:192.0.2.1]:18080"} {
		top("open-without-keys/"+address, "listen: \""+address+"\"")
	}
	for _, address := range []string{"0.0.0.0:18081", ":18081", "[::]:18081"} {
		top("open-admin/"+address, "admin: { listen: \""+address+"\" }")
		top("open-admin-with-store/"+address, "store: sqlite\nadmin: { listen: \""+address+"\" }")
		top("open-admin-with-keys/"+address, "keys: [0123456789abcdef0123]\nadmin: { listen: \""+address+"\" }")
	}
	top("short-key", "keys: [short]")
	top("empty-key", "keys: [\"\"]")
	top("unset-key", "keys: [\"${REDTEAM_UNSET}\"]")
	top("same-key-twice", "keys: [0123456789abcdef0123, 0123456789abcdef0123]")
	top("short-pepper", "store: { url: sqlite, peppers: [short] }")
	top("empty-pepper", "store: { url: sqlite, peppers: [\"\"] }")
	top("postgres-without-pepper", "store: { url: \"postgres://127.0.0.1:1/x\" }")
	top("unknown-key", "tlss: { cert: a }")
	top("duplicate-key", "listen: 127.0.0.1:18080\nlisten: 0.0.0.0:18080")
	top("tls-missing-file", "tls: { cert: /nonexistent.pem, key: /nonexistent.key }")
	top("client-ca-missing-file", "tls: { cert: /nonexistent.pem, key: /nonexistent.key, client_ca: /nonexistent.ca }")
	top("tls-version", "tls: { cert: a, key: b, min_version: \"1.0\" }")
	top("cors-path", "cors: { origins: [\"https://app.example/path\"] }")
	top("cors-no-scheme", "cors: { origins: [app.example] }")
	top("proxies-word", "trusted_proxies: [everyone]")
	top("negative-limit", "limits: { body: -1 }")
	top("huge-limit", "limits: { body: 99999999999GiB }")
	top("zero-timeout", "timeouts: { first_byte: -1s }")
	top("networks-missing", "discover: { file: workers.json }")
	top("networks-word", "discover: { file: workers.json, networks: [any] }")
	top("missing-file-variable", "keys: [\"${FILE:/nonexistent}\"]")
	top("base-path", "base_path: ../x")
	top("yaml-bomb", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nkeys: *g")
	top("yaml-depth", "keys: "+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000))
	base("no-scheme", "api.example.com/v1")
	base("ftp", "ftp://api.example.com/v1")
	base("file", "file:///etc/passwd")
	base("javascript", "javascript:alert(1)")
	base("userinfo", "https://user:pass@api.example.com/v1")
	base("fragment", "https://api.example.com/v1#x")
	base("no-host", "https:///v1")
	base("plain-public", "http://api.example.com/v1")
	base("plain-public-ip", "http://192.0.2.1/v1")
	base("space", "https://api.example.com /v1")
	base("newline", "https://api.example.com\\n/v1")
	base("empty", "")
	for name, provider := range map[string]string{
		"header-newline":        `headers: { X-A: "a\r\nX-B: b" }`,
		"header-name":           `headers: { "X A": b }`,
		"header-authorization":  `headers: { Authorization: x }`,
		"header-host":           `headers: { Host: x }`,
		"header-length":         `headers: { Content-Length: "1" }`,
		"header-coding":         `headers: { Transfer-Encoding: chunked }`,
		"header-connection":     `headers: { Connection: x }`,
		"path-dots":             `paths: ["POST /v1/../admin"]`,
		"path-star":             `paths: ["POST /v1/*"]`,
		"path-no-method":        `paths: ["/v1/x"]`,
		"path-query":            `paths: ["GET /v1/x?y=z"]`,
		"path-own":              `paths: ["POST /v1/chat/completions"]`,
		"path-encoded":          `paths: ["GET /v1/%2e%2e/x"]`,
		"unknown-auth":          `auth: query`,
		"unknown-member":        `api_keys: x`,
		"key-newline":           `api_key: "a\nb"`,
		"version-newline":       `api_version: "a\r\nb"`,
		"health-path":           `health: { path: "http://127.0.0.1/x" }`,
		"unknown-ids-not-known": `unknown_ids: perhaps`,
	} {
		all = append(all, unsafe{"provider/" + name, strings.Replace(okProviders, ", api_key: sk-0123456789abcdef }", ", "+provider+" }", 1)})
	}
	for name, model := range map[string]string{"target-unknown": `{ targets: [nobody/m] }`, "no-target": `{ targets: [] }`, "star": `{ targets: ["chat/*"] }`} {
		all = append(all, unsafe{"model/" + name, strings.Replace(okProviders, "{ targets: [chat/m] }", model, 1)})
	}
	for i, known := range []string{"change-this-pepper-before-use-0123456789", "CHANGE-ME-CHANGE-ME-CHANGE-ME-CHANGE-ME", "changeme0123456789abcdef0123456789abcdef", "replace_this_0123456789abcdef0123456789abcdef", "your-pepper-0123456789abcdef0123456789abcdef"} {
		top(fmt.Sprint("known/pepper/", i), "store: { url: sqlite, peppers: ["+known+"] }")
		top(fmt.Sprint("known/second-pepper/", i), "store: { url: sqlite, peppers: [0123456789abcdef0123456789abcdef, "+known+"] }")
		top(fmt.Sprint("known/key/", i), "keys: ["+known+"]")
	}
	for i, password := range []string{"isogloss", "change-me", "your-password"} {
		top(fmt.Sprint("known/password/", i), "store: { url: \"postgres://isogloss:"+password+"@db.internal/isogloss\", peppers: [0123456789abcdef0123456789abcdef] }")
	}
	return all
}

func unsafeAttacks() (all []attack) {
	for _, u := range unsafeFiles() {
		do := func(ctx context.Context, r *rig) *evidence {
			dir := testrig.Must(os.MkdirTemp("", "redteam-"))
			defer os.RemoveAll(dir)
			file := filepath.Join(dir, "isogloss.yaml")
			text := strings.ReplaceAll(u.yaml, "UP", "http://127.0.0.1:1/v1")
			testrig.NoError(os.WriteFile(file, []byte(text), 0o600))
			e := &evidence{sent: "isogloss check -c isogloss.yaml\n" + text}
			out, err := r.command(ctx, "check", "-c", file)
			e.got = out
			e.problem(err == nil, "the configuration is accepted")
			e.problem(err != nil && strings.Contains(out, "panic"), "the command panics")
			e.problem(err != nil && strings.Contains(out, "sk-0123456789abcdef"), "the error has the provider's key")
			return e
		}
		all = append(all, attack{name: "unsafe/" + u.name, do: do})
	}
	return all
}

// command runs a command of the binary without a gateway.
func (r *rig) command(ctx context.Context, args ...string) (string, error) {
	g := testrig.Must(testrig.NewGateway(r.bin, "", "command"))
	defer g.Close()
	if r.weak {
		g.Env = append(g.Env, weakVariable+"=1")
	}
	out, err := g.Command(ctx, args...)
	if err != nil {
		return err.Error(), err
	}
	return string(out), nil
}

// fileAttacks look for files that other users of the machine can read or change.
func fileAttacks() (all []attack) {
	for _, name := range []string{"data folder", "database", "pepper", "spool", "everything else"} {
		do := func(_ context.Context, r *rig) *evidence {
			e := &evidence{sent: "stat " + name}
			found := 0
			_ = filepath.WalkDir(r.gateway.Data, func(path string, d fs.DirEntry, err error) error { // a file that vanishes cannot be read
				if err != nil {
					return fs.SkipAll
				}
				info, err := d.Info()
				if err != nil || !strings.HasPrefix(kindOf(r, path), name) {
					return nil //nolint:nilerr // the file has vanished meanwhile
				}
				found++
				e.got += fmt.Sprintf("%s %s\n", info.Mode(), path)
				// What is inside a folder that only its owner can enter is as closed as the folder.
				e.problem(d.IsDir() && path == r.gateway.Data && info.Mode().Perm()&0o077 != 0, "%s has mode %s", path, info.Mode())
				e.problem(!d.IsDir() && info.Mode().Perm()&0o077 != 0, "%s has mode %s", path, info.Mode())
				return nil
			})
			e.problem(found == 0 && name != "everything else", "there is no %s: nothing was looked at", name)
			return e
		}
		all = append(all, attack{name: "files/" + name, do: do})
	}
	return all
}

// kindOf returns what a file of the data folder is.
func kindOf(r *rig, path string) string {
	base := filepath.Base(path)
	switch {
	case path == r.gateway.Data:
		return "data folder"
	case strings.Contains(base, ".db"):
		return "database"
	case base == "pepper":
		return "pepper"
	case strings.Contains(path, "spool"):
		return "spool"
	}
	return "everything else"
}

// umaskRig starts a gateway as a careless supervisor does: the data folder does not exist
// and new files are open to everybody.
func umaskRig(ctx context.Context, o options) (*rig, error) {
	r, err := start(func(r *rig) *config {
		c := tenantStore(r)
		c.top = []string{"store: sqlite", "data: fresh"}
		return c
	})(ctx, o)
	if err == nil {
		r.gateway.Data = filepath.Join(r.gateway.Dir, "fresh")
		r.send(ctx, generate("chat", testrig.Chat, "chat").request("full"))
	}
	return r, err
}

// noGateway is the rig of attacks that run commands only.
func noGateway(_ context.Context, o options) (*rig, error) { return newRig(o) }
