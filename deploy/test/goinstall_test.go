package deploytest

import (
	"archive/zip"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoInstall puts the module into a proxy on disk, as a public proxy would have it,
// and runs `go install …/cmd/isogloss@latest`. Dependencies come from the module cache. With -short it only loads the
// packages, which fails for a missing package or embedded file and for a replaced module: compiling them takes minutes of CPU.
func TestGoInstall(t *testing.T) {
	t.Parallel()
	const module, version = "github.com/isogloss-gateway/isogloss", "v0.0.1"
	proxy := t.TempDir()
	versions := filepath.Join(proxy, module, "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]string{"Version": version, "Time": "2026-11-16T00:00:00Z"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(versions, "list"), version+"\n")
	write(t, filepath.Join(versions, version+".info"), string(info))
	write(t, filepath.Join(versions, version+".mod"), string(gomod))
	zipModule(t, copySource(t), filepath.Join(versions, version+".zip"), module+"@"+version)

	bin := t.TempDir()
	cache := strings.TrimSpace(run(t, exec.Command("go", "env", "GOMODCACHE")))
	// A module cache of its own gets this module only; the others are in the real one.
	args := []string{"install"}
	if testing.Short() {
		args = append(args, "-n")
	}
	cmd := exec.Command("go", append(args, module+"/cmd/isogloss@latest")...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=-trimpath -modcacherw", "GOMODCACHE="+t.TempDir(),
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache/download"), "GONOSUMDB="+module, "GOSUMDB=off")
	out, err := cmd.CombinedOutput() // with -n the commands are on standard error
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if testing.Short() {
		if !strings.Contains(string(out), module+"@"+version+"/cmd/isogloss") {
			t.Errorf("go install does not build the command of the proxy:\n%.2000s", out)
		}
		return
	}
	path := filepath.Join(bin, "isogloss")
	if got := run(t, exec.Command(path, "version")); !strings.Contains(got, version) {
		t.Errorf("the version is %q", got)
	}
	serveRequest(t, path)
}

// zipModule writes the files of the module, without those of modules below it, as the
// module proxy packs them.
func zipModule(t *testing.T, source, path, prefix string) {
	t.Helper()
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w := zip.NewWriter(out)
	err = filepath.WalkDir(source, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && file != source {
				return fs.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(source, file)
		if err != nil {
			return err
		}
		member, err := w.Create(prefix + "/" + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		_, err = member.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
