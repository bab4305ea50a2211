package discover

import (
	"net/netip"
	"net/url"
	"testing"

	"github.com/go-json-experiment/json"
)

// FuzzWorker checks that any value in etcd is either rejected, or is a worker that can be
// saved and whose address is in the allowed networks, also as a dialer parses it.
func FuzzWorker(f *testing.F) {
	for _, s := range []string{
		`{"id":"a","model":"m","protocol":"openai-chat","url":"http://10.0.0.1:8000/v1"}`,
		`{"id":"a","model":"m","protocol":"gemini","url":"https://[::ffff:10.0.0.1]","capacity":3,"weight":2,"name":"n","later":1}`,
		`{"id":"a","model":"m","protocol":"anthropic","url":"http://10.0.0.1@169.254.169.254/"}`,
		`{"id":"a","id":"a"}`, `[]`, `{"id":"a","model":"m","protocol":"openai-chat","url":"http://0x0a000001/"}`,
	} {
		f.Add([]byte(s))
	}
	nets := networks(f, "10.0.0.0/8")
	r := rules{networks: nets, protocols: []string{"openai-chat", "gemini", "anthropic"}}
	f.Fuzz(func(t *testing.T, value []byte) {
		w, err := parse("a", value)
		if err != nil || r.check(w) != nil {
			return
		}
		u, err := url.Parse(w.URL)
		if err != nil {
			t.Fatal(err)
		}
		addr, err := netip.ParseAddr(u.Hostname())
		if err != nil || !nets[0].Contains(addr.Unmap()) {
			t.Fatalf("%q is taken", w.URL)
		}
		text, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parse("a", text); err != nil || again != w {
			t.Fatalf("%+v became %+v, %v", w, again, err)
		}
	})
}
