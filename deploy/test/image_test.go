package deploytest

import (
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	imageName    = "localhost/isogloss-test:v0"
	imageUser    = 65532
	imageVersion = "v0.0.0-image"
	imageCommit  = "0123456789abcdef0123456789abcdef01234567"
)

// imageStore is a store of images and containers of its own.
type imageStore struct {
	t      *testing.T
	config string
}

func newImageStore(t *testing.T) *imageStore {
	t.Helper()
	dir := t.TempDir()
	s := &imageStore{t: t, config: filepath.Join(dir, "storage.conf")}
	text := fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", filepath.Join(dir, "graph"), filepath.Join(dir, "run"))
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *imageStore) environment() []string {
	return append(os.Environ(), "CONTAINERS_STORAGE_CONF="+s.config, "VERSION="+imageVersion, "REVISION="+imageCommit, "SOURCE_DATE_EPOCH=1770000000")
}

func (s *imageStore) command(args ...string) *exec.Cmd {
	cmd := exec.Command("buildah", append([]string{"--storage-driver", "vfs"}, args...)...)
	cmd.Env = s.environment()
	return cmd
}

func (s *imageStore) buildah(args ...string) string {
	s.t.Helper()
	return strings.TrimSpace(run(s.t, s.command(args...)))
}

// build builds the images from a source folder.
func (s *imageStore) build(source string, architectures ...string) {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(source, "deploy/image/build.sh"), append([]string{imageName}, architectures...)...)
	cmd.Env = s.environment()
	run(s.t, cmd)
}

func (s *imageStore) digest(architecture string) string {
	s.t.Helper()
	return s.buildah("inspect", "--type", "image", "--format", "{{.FromImageDigest}}", imageName+"-"+architecture)
}

// container makes a container of an image and returns its name and its files.
func (s *imageStore) container(architecture string) (name, files string) {
	s.t.Helper()
	name = s.buildah("from", "--pull-never", imageName+"-"+architecture)
	return name, s.buildah("mount", name)
}

// TestImage builds the image for two architectures and looks into it, builds it again in
// another folder, and runs it as `docker run -e OPENAI_API_KEY -e ISOGLOSS_KEYS` does.
func TestImage(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("buildah with chroot isolation needs root here")
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64}
	if !testing.Short() { // the first build for another architecture takes minutes
		machines["arm64"] = elf.EM_AARCH64
	}
	architectures := slices.Sorted(maps.Keys(machines))
	store := newImageStore(t)
	store.build(root, architectures...)
	for architecture, machine := range machines {
		t.Run(architecture, func(t *testing.T) {
			checkImageSettings(t, store, architecture)
			_, files := store.container(architecture)
			checkImageFiles(t, files, machine)
		})
	}
	t.Run("again", func(t *testing.T) {
		other := newImageStore(t)
		other.build(otherFolder(t), architectures...)
		for _, architecture := range architectures {
			if a, b := store.digest(architecture), other.digest(architecture); a != b || !strings.HasPrefix(a, "sha256:") {
				t.Errorf("%s: the second build gives %s, the first %s", architecture, b, a)
			}
		}
	})
	t.Run("without keys", func(t *testing.T) {
		name, _ := store.container("amd64")
		cmd := store.command("run", "--isolation", "chroot", "--env", "OPENAI_API_KEY="+vendorKey, name, "--", "/usr/bin/isogloss", "serve")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "set ISOGLOSS_KEYS") {
			t.Errorf("without keys: %v %s", err, out)
		}
	})
	t.Run("serves", func(t *testing.T) { runImage(t, store) })
}

func checkImageSettings(t *testing.T, s *imageStore, architecture string) {
	t.Helper()
	var image struct {
		OCIv1 struct {
			Architecture, OS string
			Config           struct {
				User                 string
				Env, Entrypoint, Cmd []string
				ExposedPorts         map[string]any
				Labels               map[string]string
			}
		}
	}
	if err := json.Unmarshal([]byte(s.buildah("inspect", "--type", "image", imageName+"-"+architecture)), &image); err != nil {
		t.Fatal(err)
	}
	c := image.OCIv1.Config
	if image.OCIv1.Architecture != architecture || image.OCIv1.OS != "linux" {
		t.Errorf("the image is for %s/%s", image.OCIv1.OS, image.OCIv1.Architecture)
	}
	if c.User != fmt.Sprintf("%d:%d", imageUser, imageUser) {
		t.Errorf("the user is %q", c.User)
	}
	if got := strings.Join(append(c.Entrypoint, c.Cmd...), " "); got != "/usr/bin/isogloss serve" {
		t.Errorf("the command is %q", got)
	}
	if _, exposed := c.ExposedPorts["8080/tcp"]; !exposed {
		t.Errorf("the ports are %v", c.ExposedPorts)
	}
	env := strings.Join(c.Env, "\n") + "\n"
	for _, want := range []string{"ISOGLOSS_LISTEN=:8080\n", "ISOGLOSS_DATA=/var/lib/isogloss\n", "RUNTIME_DIRECTORY=/var/lib/isogloss/run\n"} {
		if !strings.Contains(env, want) {
			t.Errorf("the environment is %q, without %q", env, want)
		}
	}
	for label, want := range map[string]string{
		"title": "Isogloss", "version": imageVersion, "revision": imageCommit, "licenses": "Apache-2.0",
		"source": "https://github.com/isogloss-gateway/isogloss",
	} {
		if got := c.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("the label %s is %q, want %q", label, got, want)
		}
	}
}

// checkImageFiles checks that the image has the binary, certificates, time zones and the
// data folder, and nothing else: no shell.
func checkImageFiles(t *testing.T, files string, machine elf.Machine) {
	t.Helper()
	zones := 0
	err := filepath.WalkDir(files, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch name := strings.TrimPrefix(path, files); {
		case strings.HasPrefix(name, "/usr/share/zoneinfo/"):
			zones++
		case name != "/usr/bin/isogloss" && name != "/etc/ssl/certs/ca-certificates.crt":
			t.Errorf("the image has %s", name)
		}
		return nil
	})
	if err != nil || zones < 400 {
		t.Errorf("%d time zones, %v", zones, err)
	}
	binary, err := elf.Open(filepath.Join(files, "usr/bin/isogloss"))
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	if binary.Machine != machine {
		t.Errorf("the binary is for %s", binary.Machine)
	}
	text, err := os.ReadFile(filepath.Join(files, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(text) || strings.Count(string(text), "BEGIN CERTIFICATE") < 100 {
		t.Errorf("the certificates are %d bytes", len(text))
	}
	info, err := os.Stat(filepath.Join(files, "var/lib/isogloss"))
	if err != nil {
		t.Fatal(err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid != imageUser || owner.Gid != imageUser || info.Mode().Perm() != 0o700 {
		t.Errorf("the data folder is %s of %v", info.Mode(), owner)
	}
}

// runImage runs the image with a vendor's key and a client's key in the environment.
func runImage(t *testing.T, s *imageStore) {
	name, files := s.container("amd64")
	env, authority := startVendor(t, nil)
	addresses, err := testrig.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	// Ports of the host, because the container shares its network here; on all addresses,
	// as in the image.
	_, port, _ := strings.Cut(addresses[0], ":")
	env = append(env, "ISOGLOSS_KEYS="+clientKey, "ISOGLOSS_LISTEN=:"+port, "ISOGLOSS_ADMIN_LISTEN="+addresses[1], "TZ=Asia/Tokyo")
	args := []string{"run", "--isolation", "chroot", "--volume", authority + ":" + authority + ":ro"}
	for _, e := range env {
		args = append(args, "--env", e)
	}
	before := namesIn(t, files)
	p := launch(t, s.command(append(args, name, "--", "/usr/bin/isogloss", "serve")...))
	ask(t, "http://"+addresses[0], clientKey, p.ended)
	if !strings.Contains(p.log(), `+09:00","level":"INFO","msg":"listening"`) {
		t.Errorf("the log does not have Tokyo's time: %s", p.log())
	}
	pid := descendant(t, p.cmd.Process.Pid, "isogloss")
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // the container's process is in a group of its own
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if want := strings.Repeat(fmt.Sprintf("\t%d", imageUser), 4) + "\n"; err != nil || !strings.Contains(string(status), "Uid:"+want) || !strings.Contains(string(status), "Gid:"+want) {
		t.Errorf("the process has %s, %v", status, err)
	}
	p.stop(pid)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("after SIGTERM the exit code is %d", code)
	}
	for mounted := authority; mounted != "/"; mounted = filepath.Dir(mounted) {
		before[mounted] = true // the place of the volume
	}
	checkNothingWritten(t, files, before)
}

// namesIn returns the files of a container, without those below its data folder. The places where the
// container's /proc, /dev and configuration of the network are mounted are no files of the gateway.
func namesIn(t *testing.T, files string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(files, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, files)
		switch name {
		case "/var/lib/isogloss", "/proc", "/dev", "/sys", "/run", "/etc":
			return fs.SkipDir
		}
		names[name] = true
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return names
}

// checkNothingWritten checks that the gateway has made files in its data folder only, so that
// it runs with a read-only root.
func checkNothingWritten(t *testing.T, files string, before map[string]bool) {
	t.Helper()
	for name := range namesIn(t, files) {
		if !before[name] {
			t.Errorf("%s was made", name)
		}
	}
}
