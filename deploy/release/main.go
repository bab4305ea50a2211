// Release makes all artefacts of a version: binaries, archives, deb and rpm packages, the
// container image, the Helm chart, a Homebrew formula, bills of materials, provenance,
// checksums and their signature. The same source gives the same files, apart from the
// signature.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// platforms are those that a release has binaries for.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// release makes the artefacts of one version.
type release struct {
	version   string // with its v
	out       string
	platforms []platform
	commit    string
	when      time.Time // the commit's time, which every file gets
	image     bool
	sign      bool
}

// platform is an operating system and an architecture, as Go names them.
type platform struct{ os, arch string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := parse(os.Args[1:])
	if err == nil {
		err = r.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing left to do
	}
}

func parse(args []string) (*release, error) {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	version := flags.String("version", "", "the `VERSION`, such as v1.2.3")
	out := flags.String("out", "dist", "the `FOLDER` for the artefacts")
	only := flags.String("platforms", platforms, "binaries for these platforms")
	image := flags.Bool("image", true, "build the container image; needs buildah")
	sign := flags.Bool("sign", true, "sign the checksums with cosign: with the key COSIGN_KEY, else with the identity of the CI job")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`).MatchString(*version) {
		return nil, fmt.Errorf("-version: %q is not a semantic version; write one such as v1.2.3", *version)
	}
	r := &release{version: *version, image: *image, sign: *sign}
	for name := range strings.SplitSeq(*only, ",") {
		system, arch, found := strings.Cut(name, "/")
		if !found {
			return nil, fmt.Errorf("-platforms: %q has no slash; write OS/ARCH", name)
		}
		r.platforms = append(r.platforms, platform{system, arch})
	}
	out2, err := filepath.Abs(*out)
	r.out = out2
	return r, err
}

// number returns the version without its v, as file names have it.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// path returns the path of an artefact.
func (r *release) path(format string, args ...any) string {
	return filepath.Join(r.out, fmt.Sprintf(format, args...))
}

// archiveName returns the name of a platform's archive.
func (r *release) archiveName(p platform) string {
	return fmt.Sprintf("isogloss_%s_%s", r.number(), strings.TrimPrefix(latestName(p), "isogloss_"))
}

// latestName returns the name of the archive without the version, for the address of the latest release.
func latestName(p platform) string {
	suffix := "tar.gz"
	if p.os == "windows" {
		suffix = "zip"
	}
	return fmt.Sprintf("isogloss_%s_%s.%s", p.os, p.arch, suffix)
}

// run makes the artefacts in the order in which they depend on each other.
func (r *release) run(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.work()) }() //nolint:gosec // a temporary folder in the one that the operator names
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"binaries and archives", r.buildArchives},
		{"bills of materials", r.writeBills},
		{"deb and rpm packages", r.buildPackages},
		{"Helm chart", r.buildChart},
		{"container image", r.buildImage},
		{"Homebrew formula", r.writeFormula},
		{"provenance", r.writeProvenance},
		{"checksums", r.writeChecksums},
		{"signature", r.signChecksums},
	} {
		fmt.Fprintln(os.Stderr, "making the", step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// start goes from deploy, where the program is run, to the root of the repository, reads
// the commit and empties the folder.
func (r *release) start(ctx context.Context) error {
	if err := os.Chdir(".."); err != nil {
		return err
	}
	if _, err := os.Stat("deploy/build.sh"); err != nil {
		return fmt.Errorf("run it in the folder deploy: %w", err)
	}
	var err error
	if r.commit = os.Getenv("REVISION"); r.commit == "" {
		if r.commit, err = output(ctx, "git", "rev-parse", "HEAD"); err != nil {
			return err
		}
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = output(ctx, "git", "log", "-1", "--format=%ct"); err != nil {
			return err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.when = time.Unix(seconds, 0).UTC()
	return errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.work(), 0o755)) //nolint:gosec // artefacts are public
}

// work returns the folder for files that are no artefacts.
func (r *release) work() string { return filepath.Join(r.out, ".work") }

// binary returns the path of a platform's binary.
func (r *release) binary(p platform) string {
	name := "isogloss"
	if p.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.work(), p.os+"-"+p.arch, name)
}

func (r *release) buildArchives(ctx context.Context) error {
	for _, p := range r.platforms {
		cmd := exec.CommandContext(ctx, "deploy/build.sh", r.binary(p)) //nolint:gosec // a script of this repository
		cmd.Env = append(os.Environ(), "VERSION="+r.version, "GOOS="+p.os, "GOARCH="+p.arch, "CONSOLE=required")
		if err := run(cmd); err != nil {
			return err
		}
		files := []member{{r.binary(p), filepath.Base(r.binary(p)), 0o755, nil}, {"LICENSE", "LICENSE", 0o644, nil}, {"README.md", "README.md", 0o644, nil}}
		for _, name := range []string{r.archiveName(p), latestName(p)} {
			if err := writeArchive(r.path("%s", name), files, r.when); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs a command; its output is that of this program.
func run(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}

// output runs a command and returns what it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // constant commands
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.TrimSpace(string(out)), nil
}
