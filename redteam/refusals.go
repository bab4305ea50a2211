package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// refusalRig starts a gateway with a key that may send one request a minute.
func refusalRig(ctx context.Context, o options) (*rig, error) {
	return start(func(r *rig) *config {
		c := tenantStore(r)
		c.keys = append(c.keys, keySpec{name: "limited", body: `"org":"a","models":["*"],"limits":{"requests_per_minute":1}`}, keySpec{name: "quiet", body: `"org":"a","models":["*"]`})
		return c
	})(ctx, o)
}

// refused returns how many refusals of a key and reason the admin API shows, and its response. An empty key is all keys.
func (r *rig) refused(ctx context.Context, key, reason string) (n int, text string) {
	e := r.send(ctx, request{method: "GET", path: "/api/v1/refusals", key: "owner", admin: true})
	for _, one := range testrig.Parse([]byte(e.body)).List("refusals") {
		if (key == "" || one.Str("key") == r.ids[key]) && (reason == "" || one.Str("reason") == reason) {
			n += one.Num("count")
		}
	}
	return n, e.body
}

// refusalFloods send many requests that the gateway refuses. Each is counted, and what is kept of them stays small.
func refusalFloods() (all []attack) {
	long := strings.Repeat("name-", 20<<10)
	for name, f := range map[string]struct {
		key, reason string
		times       int
		request     func(r *rig, i int) request
	}{
		"names": {"full", "access", 300, func(_ *rig, i int) request { return refusedRequest("full", fmt.Sprintf("%s%d", long, i)) }},
		"odd-names": {"full", "access", 300, func(_ *rig, i int) request {
			return refusedRequest("full", fmt.Sprintf(`\u0000\u001b[31m\u202e\ud800\uffff%d`, i))
		}},
		"limit": {"limited", "limit", 2000, func(*rig, int) request { return refusedRequest("limited", "chat/m") }},
		"agents": {"quiet", "access", 300, func(_ *rig, i int) request {
			q := refusedRequest("quiet", "none")
			q.headers = append(q.headers, "User-Agent", fmt.Sprint(strings.Repeat("a", 8<<10), i), "X-Request-Id", fmt.Sprint(strings.Repeat("b", 8<<10), i))
			return q
		}},
	} {
		do := func(ctx context.Context, r *rig) *evidence {
			before, _ := r.refused(ctx, f.key, f.reason)
			memory := testrig.ProcessMemory(r.gateway.PID(), "VmHWM")
			var e *evidence
			served := 0
			for i := range f.times {
				if e = r.send(ctx, f.request(r, i)); e.status < 400 {
					served++
				}
				e.problem(e.status == 0, "no response")
			}
			n, text := 0, ""
			err := testrig.Until(ctx, patience, "", func() bool {
				n, text = r.refused(ctx, f.key, f.reason)
				return n-before >= f.times-served || r.weak
			})
			e.problem(err != nil || n-before != f.times-served, "%d refusals are counted of %d", n-before, f.times-served)
			e.problem(served > 1, "%d requests are served", served)
			e.problem(len(text) > 64<<10, "the list of refusals has %d bytes", len(text))
			rows := r.send(ctx, request{method: "GET", path: "/api/v1/requests?outcome=refused&limit=1000", key: "owner", admin: true})
			e.problem(len(rows.body) > 2<<20, "the samples have %d bytes", len(rows.body))
			e.problem(strings.Contains(rows.body, strings.Repeat("name-", 100)), "a sample has a name of any length")
			grown := testrig.ProcessMemory(r.gateway.PID(), "VmHWM") - memory
			e.figure(grown > 96<<20, "memory has grown by %.0f MB", grown/1e6)
			return e
		}
		all = append(all, attack{name: "refusals/flood/" + name, do: do})
	}
	unknown := func(ctx context.Context, r *rig) *evidence {
		before, _ := r.refused(ctx, "", "")
		var e *evidence
		for i := range 400 { // ids that no key has
			q := refusedRequest("", "chat/m")
			q.headers, q.from = []string{"Authorization", fmt.Sprintf("Bearer gw_live_%020d_%032d", i, i)}, addressed(5000+i)
			e = r.send(ctx, q)
			e.problem(e.status != 401 && e.status != 429, "status %d", e.status)
		}
		control := refusedRequest("quiet", "none")
		r.send(ctx, control)
		n := 0
		err := testrig.Until(ctx, patience, "", func() bool { n, _ = r.refused(ctx, "", ""); return n > before || r.weak })
		e.problem(err != nil || n != before+1, "%d refusals are counted of keys that nobody has", n-before-1)
		return e
	}
	return append(all, attack{name: "refusals/flood/unknown-keys", do: unknown})
}

// refusedRequest returns a request for a model. The model's name is the text of a JSON string.
func refusedRequest(key, model string) request {
	return request{path: testrig.Chat.Path("m", false), key: key, body: `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`}
}

// hostileCounts are files in the place of that of an earlier process.
var hostileCounts = map[string]string{
	"empty": "", "torn": `{"Counts":[{"Log":"l`, "list": "[]", "null": "null", "page": "<html>", "counts-of-nothing": `{"Counts":[` + strings.Repeat("{},", 8<<20) + `{}]}`, "rows-of-nothing": `{"Rows":[` + strings.Repeat("{},", 8<<20) + `{}]}`,
	"losses": `{"Rows":[{"ID":"x","Losses":[` + strings.Repeat("{},", 8<<20) + `{}]}]}`, "attempts": `{"Rows":[{"ID":"x","Attempts":[` + strings.Repeat("{},", 8<<20) + `{}]}]}`, "nested": `{"Rows":` + strings.Repeat("[", 4<<20), "no-id": `{"Rows":[{"Model":"m"}]}`,
	"overflow":  `{"Counts":[{"Log":"a","Key":"k","Reason":"limit","Minute":"2026-11-15T12:00:00Z","Count":9223372036854775807},{"Log":"b","Key":"k","Reason":"limit","Minute":"2026-11-15T12:00:00Z","Count":9223372036854775807}]}`,
	"negative":  `{"Counts":[{"Log":"a","Key":"k","Reason":"limit","Minute":"2026-11-15T12:00:00Z","Count":-9223372036854775808}]}`,
	"year-9999": `{"Counts":[{"Log":"a","Key":"k","Reason":"limit","Minute":"9999-12-31T23:59:59Z","Count":1}]}`, "year-0": `{"Counts":[{"Log":"a","Key":"k","Reason":"limit","Minute":"0000-01-01T00:00:00Z","Count":1}]}`,
	"zero-bytes": `{"Counts":[{"Log":"a\u0000","Key":"k\u0000","Reason":"\u0000","Org":"\u0000","Node":"\u0000","Minute":"2026-11-15T12:00:00Z","Count":1}],"Rows":[{"ID":"x\u0000","Model":"\u0000","Began":"2026-11-15T12:00:00Z"}]}`,
	"paid":       `{"Rows":[{"ID":"paid-row","Key":"k","Org":"a","Began":"2026-11-15T12:00:00Z","Outcome":"answered","Cost":5000000000,"Usage":{"Input":1000000,"Output":1000000}}]}`,
}

// fileRefusals put a file into the data folder that no gateway has written. The next gateway starts, and shows usage and refusals.
func fileRefusals() (all []attack) {
	add := func(name string, prepare func(path string) error, removed bool, unproven string) {
		do := func(ctx context.Context, r *rig) *evidence {
			g := testrig.Must(testrig.NewGateway(r.bin, "", "gateway"))
			defer g.Close()
			path := filepath.Join(g.Data, "refusals-hostile.json")
			testrig.NoError(prepare(path))
			if r.weak {
				g.Env = append(g.Env, weakVariable+"=1")
			}
			testrig.NoError(errors.Join(g.Configure("store: sqlite\ndata: data\nlog: { format: json }\nproviders:\n  chat: { protocol: openai-chat, base_url: \"http://127.0.0.1:1/v1\" }\nmodels:\n  m: { targets: [chat/m] }\n"), g.Start(ctx)))
			e := &evidence{sent: "start with " + path}
			err := testrig.Until(ctx, patience, "", func() bool {
				_, err := os.Lstat(path)
				return r.weak || !removed || err != nil
			})
			_, left := os.Lstat(path)
			e.problem(err != nil || removed && left == nil, "the file is still there")
			out := testrig.Must(g.Command(ctx, "keys", "create", "-c", g.Config, "--json", "--role", "owner", "--name", "owner"))
			key := testrig.Parse(out).Str("key")
			for _, path := range []string{"/api/v1/refusals", "/api/v1/usage", "/api/v1/requests", "/api/v1/usage?group=hour"} {
				status, body := callAdmin(ctx, g.Admin+path, key)
				e.got += body + "\n"
				e.problem(status != http.StatusOK, "%s: status %d: %s", path, status, testrig.Clip(body, 300))
				e.problem(strings.Contains(body, `"outcome":"answered"`), "a row of the file is in the ledger as answered")
			}
			e.problem(testrig.ProcessMemory(g.PID(), "VmHWM") > 400<<20, "the process has used %.0f MB", testrig.ProcessMemory(g.PID(), "VmHWM")/1e6)
			e.problem(g.Alive() != nil, "the gateway has ended: %v", g.Alive())
			return e
		}
		all = append(all, attack{name: "refusals/file/" + name, do: do, unproven: unproven})
	}
	for _, name := range slices.Sorted(maps.Keys(hostileCounts)) {
		add(name, func(path string) error { return os.WriteFile(path, []byte(hostileCounts[name]), 0o600) }, true, "")
	}
	const none = "the weak gateway reads no file"
	add("large", func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) }, true, "")
	add("pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }, false, none)
	add("device", func(path string) error { return os.Symlink("/dev/zero", path) }, false, none)
	add("folder", func(path string) error { return os.Mkdir(path, 0o700) }, false, none)
	add("link", func(path string) error { return os.Symlink("isogloss.db", path) }, false, none)
	return all
}

// callAdmin calls the admin API and returns the status and the body.
func callAdmin(ctx context.Context, address, key string) (int, string) {
	req := testrig.Must(http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody))
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	return resp.StatusCode, string(testrig.Must(io.ReadAll(io.LimitReader(resp.Body, 32<<20))))
}

// refusalAttacks want more from refused requests than a count.
func refusalAttacks() (all []attack) {
	return slices.Concat(refusalFloods(), fileRefusals())
}
