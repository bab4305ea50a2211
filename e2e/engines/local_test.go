package engines

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
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
		checkFree(t, address)
	}
	bin := rig.Build(t)

	t.Run("nobody there", func(t *testing.T) {
		log := &rig.Log{}
		cmd := bare(context.WithoutCancel(t.Context()), t.TempDir(), bin)
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		const waits = `"msg":"the gateway waits for an engine: none was found`
		if err := testrig.Until(t.Context(), rig.Patience, "the log does not have "+waits, func() bool { return strings.Contains(log.String(), waits) }); err != nil {
			t.Errorf("%v: %s", err, log.Tail())
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails only if it is gone, and Wait tells why
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})

	engine := rig.StartEngine(t, rig.EngineOptions{Address: engineUsual})
	t.Run("found", func(t *testing.T) {
		log := serveBare(t, bin)
		for _, c := range clients(t, &rig.Gateway{URL: "http://" + besideEngine}) {
			if a := c.must(t, gosdk.Request{Model: engine.Model, Prompt: "Say hello number 2.", MaxTokens: 40}); a.Text == "" || a.Finish != ended {
				t.Errorf("%s: %+v", c.Dialect, a)
			}
		}
		found := `"msg":"an engine was found","engine":"llama.cpp","url":"http://` + engineUsual + `/v1","models":1`
		if err := testrig.Until(t.Context(), 5*time.Second, "the log does not have "+found, func() bool { return strings.Contains(log.String(), found) }); err != nil {
			t.Error(err)
		}
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

func checkFree(t *testing.T, address string) {
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

// waitModels waits until the gateway's list of models has the given text. The gateway
// looks for engines every five seconds.
func waitModels(t *testing.T, text string) {
	t.Helper()
	list := ""
	err := testrig.Until(t.Context(), 15*time.Second, "the list of models does not have "+text, func() bool {
		list = testrig.Page(t.Context(), "http://"+besideEngine+"/v1/models")
		return strings.Contains(list, text)
	})
	if err != nil {
		t.Fatalf("%v: %s", err, list)
	}
}
