package main

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the two formats
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// buildPackages makes a deb and an rpm of each Linux binary.
func (r *release) buildPackages(context.Context) error {
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.buildPackage(p, format); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) buildPackage(p platform, format string) error {
	values := map[string]string{"ARCH": p.arch, "VERSION": r.version, "BINARY": r.binary(p)}
	config, err := nfpm.ParseFileWithEnvMapping("deploy/package/nfpm.yaml", func(name string) string { return values[name] })
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info.MTime = r.when
	for _, c := range info.Contents {
		c.FileInfo.MTime = r.when
	}
	if err := nfpm.PrepareForPackager(nfpm.WithDefaults(info), format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	out, err := os.Create(r.path("isogloss_%s_%s.%s", r.number(), p.arch, format))
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, out), out.Close())
}

// buildImage builds the image of each Linux architecture and packs all of them into one
// OCI archive.
func (r *release) buildImage(ctx context.Context) error {
	if !r.image {
		return nil
	}
	name := "localhost/isogloss:" + r.version
	args := []string{name}
	for _, p := range r.platforms {
		if p.os == "linux" {
			args = append(args, p.arch)
			if err := os.Link(r.binary(p), r.path(".work/isogloss-%s", p.arch)); err != nil {
				return err
			}
		}
	}
	build := exec.CommandContext(ctx, "deploy/image/build.sh", args...) //nolint:gosec // a script of this repository
	build.Env = append(os.Environ(), "VERSION="+r.version, "REVISION="+r.commit, "BINARIES="+r.work())
	if err := run(build); err != nil {
		return err
	}
	buildah := func(args ...string) error {
		return run(exec.CommandContext(ctx, "buildah", append([]string{"--storage-driver", "vfs"}, args...)...)) //nolint:gosec // constant commands
	}
	_ = exec.CommandContext(ctx, "buildah", "--storage-driver", "vfs", "manifest", "rm", name).Run() //nolint:gosec // an earlier list may not exist
	if err := buildah("manifest", "create", name); err != nil {
		return err
	}
	for _, arch := range args[1:] {
		if err := buildah("manifest", "add", name, name+"-"+arch); err != nil {
			return err
		}
	}
	return buildah("manifest", "push", "--all", "--quiet", "--digestfile", r.path("isogloss_%s_image.digest", r.number()), name, "oci-archive:"+r.path("isogloss_%s_image.tar", r.number()))
}
