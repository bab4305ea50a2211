package discover

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

const shortLease = 2 * time.Second

// beRegistrar turns the test binary into a registrar that can be killed.
func beRegistrar() bool {
	spec := os.Getenv("TEST_REGISTRAR") // endpoint and id
	if spec == "" {
		return false
	}
	endpoint, id, _ := strings.Cut(spec, " ")
	_ = Register(context.Background(), RegisterOptions{Etcd: at(endpoint), Worker: worker(id, "m"), TTL: shortLease})
	return true
}

// TestRegisterAndLeave checks that a worker is published when it registers and removed
// when it leaves.
func TestRegisterAndLeave(t *testing.T) {
	s := storetest.Etcd(t)
	_, d := follow(t, at(s.URL), Options{})
	eventually(t, "an answer", func() bool { return !d.Status().Snapshot.Stale })
	leave := register(t, at(s.URL), 10*time.Second, worker("a", "m"))
	t.Logf("there after %v", whole(t, d, 1))
	leave()
	t.Logf("gone after %v", whole(t, d, 0))
}

// TestKilledRegistrarIsGoneWithItsLease checks that the last worker of a model is removed
// when its lease ends: etcd has not failed.
func TestKilledRegistrarIsGoneWithItsLease(t *testing.T) {
	t.Parallel()
	s := storetest.Etcd(t)
	_, d := follow(t, at(s.URL), Options{})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), "TEST_REGISTRAR="+s.URL+" a")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	whole(t, d, 1)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit status reports the kill
	t.Logf("gone after %v with a lease of %v", whole(t, d, 0), shortLease)
}

func TestRegisterFollowsTheCheck(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !well.Load() {
			http.Redirect(w, r, "/login", http.StatusFound)
		}
	}))
	defer engine.Close()
	s := storetest.Etcd(t)
	c := client(t, s.URL)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Register(ctx, RegisterOptions{Etcd: at(s.URL), Worker: worker("a", "m"), Check: engine.URL, Every: 100 * time.Millisecond})
	}()
	there := func() bool {
		resp, err := c.Get(t.Context(), "/isogloss/workers/a")
		return err == nil && len(resp.Kvs) == 1 && resp.Kvs[0].Lease != 0
	}
	gone := func() bool { return !there() }
	if !gone() {
		t.Error("it is registered before its engine was found well")
	}
	well.Store(true)
	eventually(t, "the worker", there)
	well.Store(false)
	eventually(t, "its end", gone)
	well.Store(true)
	eventually(t, "the worker again", there)
	// A registrar whose key is deleted writes it again.
	if _, err := c.Delete(t.Context(), "/isogloss/workers/a"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key again", there)
	// A registrar whose lease is revoked registers again.
	resp, err := c.Get(t.Context(), "/isogloss/workers/a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Revoke(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key under a new lease", there)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !gone() {
		t.Error("it is still there after it left")
	}
}

func TestRegisterRejectsInvalidOptions(t *testing.T) {
	good := RegisterOptions{Etcd: at("http://127.0.0.1:1"), Worker: worker("a", "m")}
	for name, spoil := range map[string]func(*RegisterOptions){
		"ttl":         func(o *RegisterOptions) { o.TTL = time.Second / 2 },
		"id":          func(o *RegisterOptions) { o.Worker.ID = "" },
		"url":         func(o *RegisterOptions) { o.Worker.URL = "10.0.0.1:8000" },
		"check":       func(o *RegisterOptions) { o.Check = "localhost" },
		"endpoints":   func(o *RegisterOptions) { o.Etcd.Endpoints = nil },
		"scheme":      func(o *RegisterOptions) { o.Etcd.Endpoints = []string{"127.0.0.1:2379"} },
		"mixed":       func(o *RegisterOptions) { o.Etcd.Endpoints = []string{"http://a:1", "https://b:1"} },
		"no ca":       func(o *RegisterOptions) { o.Etcd.Endpoints, o.Etcd.CA = []string{"https://a:1"}, "/nonexistent" },
		"half a pair": func(o *RegisterOptions) { o.Etcd.Endpoints, o.Etcd.Cert = []string{"https://a:1"}, "x" },
		"ca on http":  func(o *RegisterOptions) { o.Etcd.CA = "x" },
	} {
		o := good
		if spoil(&o); Register(t.Context(), o) == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}
