package engines

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// Where everything is that nobody has said anything about: the engine on the port that
// is its own, which is the gateway's too, and the gateway on the one that it takes then.
const (
	engineUsual  = "127.0.0.1:8080"
	metricsUsual = "127.0.0.1:8081"
	besideEngine = "127.0.0.1:8082"
)

// TestLocal starts the gateway without a file and without a key beside an engine on its
// usual port: it finds it, tells so, and serves its models.
func TestLocal(t *testing.T) {
	for _, address := range []string{engineUsual, metricsUsual, besideEngine} {
		holdFree(t, address)
	}
	bin := rig.Build(t)

	t.Run("nobody there", func(t *testing.T) {
		log := serveFails(t, bin)
		if !strings.Contains(log, "start an engine: none was found of llama.cpp on port 8080") {
			t.Errorf("the gateway does not tell what it looked for: %s", log)
		}
	})

	engine := rig.StartEngine(t, rig.EngineOptions{Address: engineUsual})
	t.Run("found", func(t *testing.T) {
		log := serveBare(t, bin)
		for _, c := range clients(t, &rig.Gateway{URL: "http://" + besideEngine}) {
			if a := c.must(t, question{model: engine.Model, text: "Say hello number 2.", tokens: 40}); a.text == "" || a.finish != ended {
				t.Errorf("%s: %+v", c.dialect, a)
			}
		}
		log.WaitFor(t, `"msg":"an engine was found","engine":"llama.cpp","url":"http://`+engineUsual+`/v1","models":1`)
	})
	t.Run("no-discover", func(t *testing.T) {
		if log := serveFails(t, bin, "--no-discover"); !strings.Contains(log, "no provider: write a configuration file") {
			t.Errorf("the gateway looked all the same: %s", log)
		}
	})
	t.Run("comes and goes", func(t *testing.T) {
		serveBare(t, bin)
		waitModels(t, `"smol"`)
		engine.Kill()
		waitModels(t, `"data":[]`)
		rig.StartEngine(t, rig.EngineOptions{Address: engineUsual, Model: "another"})
		waitModels(t, `"another"`)
	})
}

func holdFree(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("something listens on %s already, so that this test cannot find an engine on its usual port; stop it: %v", address, err)
	}
	_ = l.Close()
}

func bare(ctx context.Context, dir, bin string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, bin, append([]string{"serve"}, arguments...)...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	return cmd
}

// serveFails is what the gateway says that ends because there is nothing to serve.
func serveFails(t *testing.T, bin string, arguments ...string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), rig.Patience)
	defer stop()
	out, err := bare(ctx, t.TempDir(), bin, arguments...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the gateway ended with %v, want exit status 1", err)
	}
	return string(out)
}

// serveBare starts a gateway without anything and waits until it serves. It ends with t.
func serveBare(t *testing.T, bin string) *rig.Log {
	t.Helper()
	log := &rig.Log{}
	cmd := bare(context.WithoutCancel(t.Context()), t.TempDir(), bin)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails only if it is gone, and Wait tells why
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("the gateway ended with %v\n%s", err, log.Tail())
		}
	})
	waitModels(t, `"object":"list"`)
	return log
}

// waitModels asks for the gateway's list of models until it has the given text. It looks
// for engines every five seconds.
func waitModels(t *testing.T, text string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var list bytes.Buffer
	for deadline := time.Now().Add(15 * time.Second); ; <-tick.C {
		if res, err := http.Get("http://" + besideEngine + "/v1/models"); err == nil {
			list.Reset()
			_, _ = list.ReadFrom(res.Body) // what is missing is not found
			_ = res.Body.Close()
			if strings.Contains(list.String(), text) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the gateway's models are %s and do not become %s", list.String(), text)
		}
	}
}
