package deploytest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	spdxjson "github.com/spdx/tools-golang/json"
)

const releaseVersion = "v1.2.3"

// releasePlatforms returns those that the tests build: ISOGLOSS_TEST_PLATFORMS, or this
// machine's, because a first build for each other platform takes a minute.
func releasePlatforms() []string {
	if set := os.Getenv("ISOGLOSS_TEST_PLATFORMS"); set != "" {
		return strings.Split(set, ",")
	}
	return []string{"linux/amd64"}
}

// makeRelease runs the release of a source folder and returns the folder of its artefacts.
func makeRelease(t *testing.T, source, version string, env []string, flags ...string) string {
	t.Helper()
	tool, err := releaseTool()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "dist")
	cmd := exec.Command(tool, append([]string{"-version", version, "-out", out}, flags...)...)
	cmd.Dir = filepath.Join(source, "deploy")
	cmd.Env = append(os.Environ(), append(env, "REVISION="+imageCommit, "SOURCE_DATE_EPOCH=1770000000")...)
	run(t, cmd)
	return out
}

var releaseTool = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "release")
	_, err := testrig.Output(exec.Command("go", "build", "-o", path, "../release"))
	return path, err
})

// TestRelease makes the artefacts twice, in two folders, and looks into them.
func TestRelease(t *testing.T) {
	t.Parallel()
	platforms := releasePlatforms()
	flags := []string{"-platforms", strings.Join(platforms, ","), "-image=false", "-sign=false"}
	out := makeRelease(t, root, releaseVersion, nil, flags...)
	want := []string{"checksums.txt", "isogloss-chart_1.2.3.tar.gz", "isogloss.rb", "isogloss_1.2.3.provenance.json"}
	for _, p := range platforms {
		system, arch, _ := strings.Cut(p, "/")
		name := fmt.Sprintf("isogloss_1.2.3_%s_%s", system, arch)
		if system == "windows" {
			want = append(want, name+".zip", fmt.Sprintf("isogloss_%s_%s.zip", system, arch), name+".spdx.json")
		} else {
			want = append(want, name+".tar.gz", fmt.Sprintf("isogloss_%s_%s.tar.gz", system, arch), name+".spdx.json")
		}
		if system == "linux" {
			want = append(want, "isogloss_1.2.3_"+arch+".deb", "isogloss_1.2.3_"+arch+".rpm")
		}
		t.Run(p, func(t *testing.T) { checkPlatform(t, out, system, arch) })
	}
	names := append(checkSums(t, out), "checksums.txt")
	if !sameNames(names, want) {
		t.Errorf("the artefacts are %v, want %v", names, want)
	}
	checkProvenance(t, out)
	checkFormula(t, out, platforms)

	t.Run("again", func(t *testing.T) {
		other := makeRelease(t, otherFolder(t), releaseVersion, nil, flags...)
		a, err := os.ReadFile(filepath.Join(out, "checksums.txt"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(other, "checksums.txt"))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("the second release differs, %v:\n%s\n%s", err, a, b)
		}
	})
}

// TestReleaseImageAndSignature makes the image of a release and signs the checksums with a
// local key.
func TestReleaseImageAndSignature(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":"+filepath.Join(home, "go/bin"))
	if _, err := exec.LookPath("cosign"); err != nil {
		if os.Getenv("ISOGLOSS_TEST_COSIGN") != "" {
			t.Fatal(err)
		}
		t.Skip("cosign is not installed; `make test-deploy-all` installs it")
	}
	dir := t.TempDir()
	generate := exec.Command("cosign", "generate-key-pair")
	generate.Dir, generate.Env = dir, append(os.Environ(), "COSIGN_PASSWORD=")
	run(t, generate)
	store := newImageStore(t)
	env := []string{"COSIGN_KEY=" + filepath.Join(dir, "cosign.key"), "COSIGN_PASSWORD=", "CONTAINERS_STORAGE_CONF=" + store.config}
	out := makeRelease(t, root, releaseVersion, env, "-platforms", "linux/amd64")
	sums := checkSums(t, out)
	for _, name := range []string{"isogloss_1.2.3_image.tar", "isogloss_1.2.3_image.digest"} {
		if !slices.Contains(sums, name) {
			t.Errorf("%s is not among the artefacts %v", name, sums)
		}
	}
	verify := func() error {
		cmd := exec.Command("cosign", "verify-blob", "--key", filepath.Join(dir, "cosign.pub"), "--insecure-ignore-tlog=true",
			"--bundle", filepath.Join(out, "checksums.txt.sigstore.json"), filepath.Join(out, "checksums.txt"))
		text, err := cmd.CombinedOutput()
		t.Logf("%s", text)
		return err
	}
	if err := verify(); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(out, "checksums.txt"), "forged\n")
	if verify() == nil {
		t.Error("a forged file is verified")
	}
}

func sameNames(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// checkSums compares every artefact with its checksum and returns their names.
func checkSums(t *testing.T, out string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		file, err := os.ReadFile(filepath.Join(out, name))
		sum := sha256.Sum256(file)
		if err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: the checksum is wrong, %v", name, err)
		}
		names = append(names, name)
	}
	return names
}

// checkPlatform checks the archive, the binary in it and its bill of materials.
func checkPlatform(t *testing.T, out, system, arch string) {
	t.Helper()
	base := filepath.Join(out, fmt.Sprintf("isogloss_1.2.3_%s_%s", system, arch))
	var files map[string][]byte
	if system == "windows" {
		files = unzip(t, base+".zip")
	} else {
		files = untar(t, base+".tar.gz")
	}
	var machine string
	switch binary := bytes.NewReader(append(files["isogloss"], files["isogloss.exe"]...)); system {
	case "linux":
		f, err := elf.NewFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		machine = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[f.Machine]
	case "darwin":
		f, err := macho.NewFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		machine = map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[f.Cpu]
	case "windows":
		f, err := pe.NewFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		machine = map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "amd64", pe.IMAGE_FILE_MACHINE_ARM64: "arm64"}[f.Machine]
	}
	if machine != arch || len(files) != 3 || files["LICENSE"] == nil || files["README.md"] == nil {
		t.Errorf("the archive has %d files and a binary for %q", len(files), machine)
	}
	bill, err := os.Open(base + ".spdx.json")
	if err != nil {
		t.Fatal(err)
	}
	defer bill.Close()
	document, err := spdxjson.Read(bill)
	if err != nil || len(document.Packages) < 30 {
		t.Fatalf("the bill of materials: %v, %v", document, err)
	}
	for _, p := range document.Packages {
		if p.PackageLicenseDeclared == "" || p.PackageLicenseDeclared == "NOASSERTION" {
			t.Errorf("%s has no licence in the bill of materials", p.PackageName)
		}
	}
}

func untar(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	compressed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(compressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func unzip(t *testing.T, path string) map[string][]byte {
	t.Helper()
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files := map[string][]byte{}
	for _, member := range r.File {
		f, err := member.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[member.Name], err = io.ReadAll(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close() // only read from
	}
	return files
}

// checkProvenance checks that the statement names the commit and the other artefacts.
func checkProvenance(t *testing.T, out string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "isogloss_1.2.3.provenance.json"))
	if err != nil {
		t.Fatal(err)
	}
	var statement struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct {
			Name   string
			Digest struct{ SHA256 string }
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest struct{ GitCommit string } }
			}
		}
	}
	if err := json.Unmarshal(text, &statement); err != nil {
		t.Fatal(err)
	}
	sources := statement.Predicate.BuildDefinition.ResolvedDependencies
	if statement.PredicateType != "https://slsa.dev/provenance/v1" || len(statement.Subject) < 5 || len(sources) != 1 || sources[0].Digest.GitCommit != imageCommit {
		t.Errorf("the provenance is %s", text)
	}
	for _, s := range statement.Subject {
		file, err := os.ReadFile(filepath.Join(out, s.Name))
		if sum := sha256.Sum256(file); err != nil || hex.EncodeToString(sum[:]) != s.Digest.SHA256 {
			t.Errorf("%s has another digest, %v", s.Name, err)
		}
	}
}

// checkFormula checks that the formula names the archives with their checksums.
func checkFormula(t *testing.T, out string, platforms []string) {
	t.Helper()
	formula, err := os.ReadFile(filepath.Join(out, "isogloss.rb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range platforms {
		system, arch, _ := strings.Cut(p, "/")
		if system == "windows" {
			continue
		}
		name := fmt.Sprintf("isogloss_1.2.3_%s_%s.tar.gz", system, arch)
		file, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("url \"https://github.com/isogloss-gateway/isogloss/releases/download/v1.2.3/%s\"\n      sha256 \"%x\"\n", name, sha256.Sum256(file))
		if !strings.Contains(string(formula), want) {
			t.Errorf("the formula does not have %s:\n%s", want, formula)
		}
	}
}
