package discover

import (
	"net/netip"
	"strings"
	"testing"
)

func networks(t testing.TB, texts ...string) []netip.Prefix {
	t.Helper()
	var list []netip.Prefix
	for _, s := range texts {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

func TestURLs(t *testing.T) {
	everywhere := networks(t, "0.0.0.0/0", "::/0")
	private := networks(t, "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::ffff:192.168.0.0/112")
	for _, c := range []struct {
		url      string
		networks []netip.Prefix
		wrong    string // a part of the error; empty: valid
	}{
		{url: "http://10.1.2.3:8000/v1"},
		{url: "https://10.1.2.3"},
		{url: "http://127.0.0.1:1/"},
		{url: "http://[fd00::1]:8000/v1"},
		{url: "http://[::ffff:10.1.2.3]:8000"},
		{url: "http://192.168.7.7"},

		{url: "http://worker-1.svc:8000/v1", wrong: "is not an address"},
		{url: "http://192.169.7.7", wrong: "none of the allowed"},
		{url: "http://11.1.2.3:8000/v1", wrong: "none of the allowed"},
		{url: "http://[::ffff:11.1.2.3]:8000", wrong: "none of the allowed"},
		{url: "http://[::1]:8000", wrong: "none of the allowed"},
		{url: "http://[fe80::1%25eth0]:8000", networks: everywhere, wrong: "zone"},
		{url: "http://169.254.169.254/latest", networks: everywhere, wrong: "never"},
		{url: "http://[::ffff:169.254.169.254]/", networks: everywhere, wrong: "never"},
		{url: "http://[64:ff9b::a9fe:a9fe]/", networks: everywhere, wrong: "never"},
		{url: "http://[2002:a9fe:a9fe::1]/", networks: everywhere, wrong: "never"},
		{url: "http://[::a9fe:a9fe]/", networks: everywhere, wrong: "never"},
		{url: "http://[fd00:ec2::254]/", networks: everywhere, wrong: "never"},
		{url: "http://169.254.170.2/", networks: everywhere, wrong: "never"},
		{url: "http://100.100.100.200/", networks: everywhere, wrong: "never"},
		{url: "http://0.0.0.0:8000", networks: everywhere, wrong: "never"},
		{url: "http://[::]:8000", networks: everywhere, wrong: "never"},
		{url: "http://224.0.0.1", networks: everywhere, wrong: "never"},
		{url: "http://[ff02::1]", networks: everywhere, wrong: "never"},
		{url: "http://255.255.255.255", networks: everywhere, wrong: "never"},
		{url: "http://2130706433/", wrong: "is not an address"},
		{url: "http://0x7f.1/", wrong: "is not an address"},
		{url: "http://127.1/", wrong: "is not an address"},
		{url: "http://010.0.0.1/", wrong: "is not an address"},
		{url: "http://user:pass@10.0.0.1/", wrong: "user"},
		{url: "http://10.0.0.1@11.0.0.1/", wrong: "user"},
		{url: "http://10.0.0.1/?a=b", wrong: "more than"},
		{url: "http://10.0.0.1/?", wrong: "more than"},
		{url: "http://10.0.0.1/#x", wrong: "more than"},
		{url: "http://10.0.0.1/#", wrong: "more than"},
		{url: "ftp://10.0.0.1/", wrong: "http"},
		{url: "file:///etc/passwd", wrong: "http"},
		{url: "unix:///run/x.sock", wrong: "http"},
		{url: "//10.0.0.1/", wrong: "http"},
		{url: "10.0.0.1:8000", wrong: "url"},
		{url: "http:10.0.0.1", wrong: "more than"},
		{url: "http://", wrong: "host"},
		{url: "http://:8000", wrong: "host"},
		{url: "http://10.0.0.1:", wrong: "port"},
		{url: "http://10.0.0.1:0", wrong: "port"},
		{url: "http://10.0.0.1:65536", wrong: "port"},
		{url: "http://10.0.0.1:http", wrong: "url"},
		{url: "http://a b/", wrong: "url"},
		{url: "http://a%41/", wrong: "url"},
		{url: "http://bücher/", wrong: "is not an address"},
		{url: "http://10.0.0.1/\n", wrong: "url"},
		{url: "http://10.0.0.1/" + strings.Repeat("x", maxURL), wrong: "longer"},
		{url: "", wrong: "http"},
	} {
		list := c.networks
		if list == nil {
			list = private
		}
		list, err := plain(list)
		if err != nil {
			t.Fatal(err)
		}
		err = rules{networks: list}.checkURL(c.url)
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%q is refused: %v", c.url, err)
		case c.wrong != "" && err == nil:
			t.Errorf("%q is taken, want a complaint with %q", c.url, c.wrong)
		case c.wrong != "" && !strings.Contains(err.Error(), c.wrong):
			t.Errorf("%q: %v, want a complaint with %q", c.url, err, c.wrong)
		}
	}
}

func TestEmbeddedIPv4Networks(t *testing.T) {
	if _, err := plain(networks(t, "::ffff:0.0.0.0/90")); err == nil {
		t.Error("a prefix over IPv4 and more is taken")
	}
	if _, err := plain([]netip.Prefix{{}}); err == nil {
		t.Error("the zero prefix is taken")
	}
}

func TestIncompleteWorkersAreRejected(t *testing.T) {
	good := worker("a", "m")
	r := rules{networks: networks(t, "10.0.0.0/8"), protocols: []string{"openai-chat"}, models: []string{"m", "llama-*"}}
	if err := r.check(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Worker){
		"pattern":     func(w *Worker) { w.Model = "*" },
		"prefix":      func(w *Worker) { w.Model = "llama-*" },
		"not allowed": func(w *Worker) { w.Model = "mm" },
		"no id":       func(w *Worker) { w.ID = "" },
		"no model":    func(w *Worker) { w.Model = "" },
		"long model":  func(w *Worker) { w.Model = strings.Repeat("m", maxText+1) },
		"control":     func(w *Worker) { w.Name = "a\nb" },
		"zone":        func(w *Worker) { w.Zone = "a\nb" },
		"protocol":    func(w *Worker) { w.Protocol = "smtp" },
		"capacity":    func(w *Worker) { w.Capacity = -1 },
		"weight":      func(w *Worker) { w.Weight = maxNumber + 1 },
		"bad utf8":    func(w *Worker) { w.ID = "a\xff" },
		"wrong place": func(w *Worker) { w.URL = "http://11.0.0.1" },
	} {
		w := good
		if spoil(&w); r.check(w) == nil {
			t.Errorf("%s: %+v is taken", name, w)
		}
	}
}
