package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestFindsConfiguration checks that -c wins over ISOGLOSS_CONFIG, that variable over
// ./isogloss.yaml, and that the start line names the file in use.
func TestFindsConfiguration(t *testing.T) {
	const settings = "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nproviders: {p: {protocol: openai-chat, base_url: \"http://127.0.0.1:1/v1\"}}\nmodels: {NAME: {targets: [p/m]}}\n"
	dir := t.TempDir()
	for _, name := range []string{"isogloss", "variable", "flag"} {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(strings.Replace(settings, "NAME", "of-"+name, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	variable := []string{"ISOGLOSS_CONFIG=variable.yaml"}
	for _, tt := range []struct {
		env, args []string
		want      string
	}{
		{nil, nil, "of-isogloss"},
		{variable, nil, "of-variable"},
		{variable, []string{"-c", "flag.yaml"}, "of-flag"},
	} {
		if r := command(t, dir, tt.env, append([]string{"models"}, tt.args...)...); !strings.Contains(r.stdout, tt.want) {
			t.Errorf("%v %v: %s%s", tt.env, tt.args, r.stdout, r.stderr)
		}
	}
	if r := command(t, dir, []string{"ISOGLOSS_CONFIG=none.yaml"}, "check"); r.code == 0 || !strings.Contains(r.stderr, "none.yaml") {
		t.Errorf("a missing file: %d %s", r.code, r.stderr)
	}
	p := serve(t, []string{"ISOGLOSS_CONFIG=" + filepath.Join(dir, "variable.yaml")})
	if log := p.log.String(); !strings.Contains(log, `"configuration":"`+filepath.Join(dir, "variable.yaml")+`"`) {
		t.Error(log)
	}
}

// TestEnvironmentIsEnough checks that a gateway without a file serves with addresses and
// keys of the environment, and that without keys it says what to set.
func TestEnvironmentIsEnough(t *testing.T) {
	const key = "0123456789abcdef"
	data, admin := freePair(t)
	env := []string{"OPENAI_API_KEY=k-1234567890", "ISOGLOSS_LISTEN=0.0.0.0" + data[strings.LastIndexByte(data, ':'):], "ISOGLOSS_ADMIN_LISTEN=" + admin}
	r := command(t, t.TempDir(), env, "serve", "--no-discover")
	if r.code == 0 || !strings.Contains(r.stderr, "ISOGLOSS_LISTEN: ") || !strings.Contains(r.stderr, "set ISOGLOSS_KEYS") {
		t.Errorf("without keys: %d %s", r.code, r.stderr)
	}
	p := serve(t, append(env, "ISOGLOSS_KEYS="+key, "ISOGLOSS_LOG_LEVEL=debug"), "--no-discover")
	if !strings.Contains(p.log.String(), `"configuration":"environment"`) {
		t.Error(p.log)
	}
	if status, body := get(t, "http://"+data+"/v1/models"); status != 401 {
		t.Errorf("without a key: %d %s", status, body)
	}
	if status, body := get(t, "http://"+data+"/v1/models", "Authorization", "Bearer "+key); status != 200 || !strings.Contains(body, "openai/") {
		t.Errorf("with a key: %d %s", status, body)
	}
}

// TestKeysUseTheStoreOfTheFile checks that `keys` opens the store beside the
// configuration file from any working directory, and names it.
func TestKeysUseTheStoreOfTheFile(t *testing.T) {
	file := writeFile(t, "isogloss.yaml", keysFile)
	dir, elsewhere := filepath.Dir(file), t.TempDir()
	relative, err := filepath.Rel(elsewhere, file)
	if err != nil {
		t.Fatal(err)
	}
	r := command(t, elsewhere, nil, "keys", "create", "-c", relative, "--name", "me", "--role", "owner")
	if r.code != 0 || !strings.Contains(r.stdout, "the store sqlite:"+filepath.Join(filepath.Dir(relative), "data", "isogloss.db")) {
		t.Fatalf("%d %s%s", r.code, r.stdout, r.stderr)
	}
	if r := command(t, dir, nil, "keys", "list", "-c", file); !strings.Contains(r.stdout, "me") {
		t.Errorf("the key is not in the store of the file: %s%s", r.stdout, r.stderr)
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("the working directory has %v, %v", left, err)
	}
}

// TestFindsTheRunningGateway checks that explain asks the gateway at the admin address,
// although the shell has neither its provider keys nor the variables of its file.
func TestFindsTheRunningGateway(t *testing.T) {
	data, admin := freePair(t)
	where := "ISOGLOSS_ADMIN_LISTEN=" + admin
	dir := t.TempDir()
	if r := command(t, dir, []string{where}, "explain", "openai/m"); r.code == 0 || !strings.Contains(r.stderr, "OPENAI_API_KEY") {
		t.Errorf("without a gateway: %d %s%s", r.code, r.stdout, r.stderr)
	}
	serve(t, []string{"OPENAI_API_KEY=k-1234567890", where, "ISOGLOSS_LISTEN=" + data}, "--no-discover")
	file := writeFile(t, "isogloss.yaml", "admin: {listen: \""+admin+"\"}\nproviders: {p: {preset: openai, api_key: \"${NOT_SET_HERE}\"}}\nmodels: {m: {targets: [p/m]}}\n")
	for _, args := range [][]string{{"explain", "openai/m"}, {"explain", "openai/m", "-c", file}} {
		r := command(t, dir, []string{where}, args...)
		if r.code != 0 || !strings.Contains(r.stdout, `the route "openai/*"`) || strings.Contains(r.stdout, "no gateway listens") {
			t.Errorf("%v: %d %s%s", args, r.code, r.stdout, r.stderr)
		}
	}
}

// TestModelsOfTheRunningGateway checks that `isogloss models` and the completion of model
// names show what the running gateway serves, with patterns expanded from the provider's
// own list, and that keys see their own models only.
func TestModelsOfTheRunningGateway(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(upstreamtest.JSON(200, `{"object":"list","data":[{"id":"own-1","context_window":8192},{"id":"own-2"}]}`))
	data, admin := freePair(t)
	file := writeFile(t, "isogloss.yaml", "listen: "+data+"\nadmin: {listen: \""+admin+"\"}\nkeys: [k-0123456789abcdef]\nproviders: {p: {protocol: openai-chat, base_url: \""+up.BaseURL()+"\", api_key: \"${P_KEY}\"}}\nmodels: {\"p/*\": {targets: [\"p/*\"]}}\n")
	serve(t, []string{"P_KEY=k-1234567890"}, "-c", file)
	r := command(t, t.TempDir(), nil, "models", "-c", file) // P_KEY is not set here
	if r.code != 0 || !strings.Contains(r.stdout, "p/own-1") || !strings.Contains(r.stdout, "p/own-2") || !strings.Contains(r.stdout, "8192") || strings.Contains(r.stdout, "*") {
		t.Errorf("%d %s%s", r.code, r.stdout, r.stderr)
	}
	if r := command(t, t.TempDir(), nil, "__complete", "explain", "-c", file, "p/"); !strings.Contains(r.stdout, "p/own-1\n") {
		t.Errorf("completed to %s%s", r.stdout, r.stderr)
	}
	if r := command(t, t.TempDir(), nil, "explain", "-c", file, "own-1"); !strings.Contains(r.stderr, "did you mean 'p/own-1'?") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	if _, body := get(t, "http://"+data+"/"); !strings.Contains(body, `"needs_key":true,"models":[]`) {
		t.Errorf("the first page without a key: %s", body)
	}
	if _, body := get(t, "http://"+data+"/", "Authorization", "Bearer k-0123456789abcdef"); !strings.Contains(body, `"models":["p/own-1","p/own-2"]`) {
		t.Errorf("the first page with a key: %s", body)
	}
	if status, body := get(t, "http://"+data+"/", "Authorization", "Bearer wrong"); status != 401 {
		t.Errorf("the first page with a wrong key: %d %s", status, body)
	}
}
