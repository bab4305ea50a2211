package discover

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
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
		names    bool
		wrong    string // a part of the complaint; empty: it is well
	}{
		{url: "http://10.1.2.3:8000/v1"},
		{url: "https://10.1.2.3"},
		{url: "http://127.0.0.1:1/"},
		{url: "http://[fd00::1]:8000/v1"},
		{url: "http://[::ffff:10.1.2.3]:8000"},
		{url: "http://192.168.7.7"},
		{url: "http://worker-1.svc:8000/v1", names: true},

		{url: "http://worker-1.svc:8000/v1", wrong: "is a name"},
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
		{url: "http://2130706433/", wrong: "is a name"},
		{url: "http://0x7f.1/", wrong: "is a name"},
		{url: "http://127.1/", wrong: "is a name"},
		{url: "http://010.0.0.1/", wrong: "is a name"},
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
		{url: "http://a b/", names: true, wrong: "url"},
		{url: "http://a%41/", names: true, wrong: "url"},
		{url: "http://bücher/", names: true, wrong: "host"},
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
		err = rules{networks: list, names: c.names}.checkURL(c.url)
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

func TestNetworksThatMeanMoreThanTheySay(t *testing.T) {
	if _, err := plain(networks(t, "::ffff:0.0.0.0/90")); err == nil {
		t.Error("a prefix over IPv4 and more is taken")
	}
	if _, err := plain([]netip.Prefix{{}}); err == nil {
		t.Error("the zero prefix is taken")
	}
}

func TestWorkersHaveToBeWhole(t *testing.T) {
	good := worker("a", "m")
	r := rules{networks: networks(t, "10.0.0.0/8"), protocols: []string{"openai-chat"}}
	if err := r.check(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Worker){
		"no id":       func(w *Worker) { w.ID = "" },
		"no model":    func(w *Worker) { w.Model = "" },
		"long model":  func(w *Worker) { w.Model = strings.Repeat("m", maxText+1) },
		"control":     func(w *Worker) { w.Name = "a\nb" },
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

// A name is checked when it is dialled, by the address that it resolved to.
func TestControlSeesTheAddressBehindAName(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for _, c := range []struct {
		network string
		well    bool
	}{{"127.0.0.0/8", true}, {"10.0.0.0/8", false}} {
		d := net.Dialer{Control: Control(networks(t, c.network))}
		conn, err := d.DialContext(context.Background(), "tcp4", "localhost:"+port)
		if (err == nil) != c.well {
			t.Errorf("%s: %v", c.network, err)
		}
		if err == nil {
			conn.Close()
		}
	}
	for _, address := range []string{"169.254.169.254:80", "[fe80::1%lo]:80", "nonsense", "[::ffff:169.254.169.254]:80"} {
		if Control(networks(t, "0.0.0.0/0", "::/0"))("tcp", address, nil) == nil {
			t.Errorf("%s is dialled", address)
		}
	}
	if Control([]netip.Prefix{{}})("tcp", "10.0.0.1:80", nil) == nil {
		t.Error("a network that is none allows everything")
	}
}
