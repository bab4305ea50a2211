package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
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
	"text/template"
	"time"

	"github.com/google/licensecheck"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const repository = "https://github.com/isogloss-gateway/isogloss"

// allowedLicenses are the licences of the modules in a binary. None asks for more than to
// be named.
var allowedLicenses = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// licenseOf returns the SPDX name of the licence of a module.
func licenseOf(ctx context.Context, module, version string) (string, error) {
	text, err := output(ctx, "go", "mod", "download", "-json", module+"@"+version)
	if err != nil {
		return "", err
	}
	var download struct{ Dir string }
	if err := json.Unmarshal([]byte(text), &download); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(download.Dir, "LICEN[CS]E*"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // of a module
		if err != nil {
			return "", err
		}
		for _, match := range licensecheck.Scan(text).Match {
			if slices.Contains(allowedLicenses, match.ID) {
				return match.ID, nil
			}
		}
	}
	return "", fmt.Errorf("%s@%s has none of the licences %v; see %v", module, version, allowedLicenses, files)
}

// writeBills writes an SPDX document for each binary: the modules that the linker has put
// into it, as Go records them, and their licences.
func (r *release) writeBills(ctx context.Context) error {
	for _, p := range r.platforms {
		info, err := buildinfo.ReadFile(r.binary(p))
		if err != nil {
			return err
		}
		name := fmt.Sprintf("isogloss_%s_%s_%s", r.number(), p.os, p.arch)
		document := &spdx.Document{
			SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
			DocumentNamespace: repository + "/releases/download/" + r.version + "/" + name + ".spdx.json",
			CreationInfo: &spdx.CreationInfo{
				Created:  r.when.Format(time.RFC3339),
				Creators: []common.Creator{{CreatorType: "Tool", Creator: "isogloss-release"}, {CreatorType: "Organization", Creator: "Isogloss"}},
			},
		}
		add := func(id, module, version, license string) {
			document.Packages = append(document.Packages, &spdx.Package{
				PackageSPDXIdentifier: common.ElementID(id), PackageName: module, PackageVersion: version, PackageDownloadLocation: "NOASSERTION",
				PackageLicenseConcluded: license, PackageLicenseDeclared: license, PackageCopyrightText: "NOASSERTION", FilesAnalyzed: false,
				PackageExternalReferences: []*spdx.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: "pkg:golang/" + module + "@" + version}},
			})
		}
		relate := func(from, kind, to string) {
			document.Relationships = append(document.Relationships, &spdx.Relationship{RefA: common.MakeDocElementID("", from), RefB: common.MakeDocElementID("", to), Relationship: kind})
		}
		add("isogloss", info.Main.Path, r.version, "Apache-2.0")
		relate("DOCUMENT", "DESCRIBES", "isogloss")
		add("go", "stdlib", strings.TrimPrefix(info.GoVersion, "go"), "BSD-3-Clause")
		relate("isogloss", "DEPENDS_ON", "go")
		for i, m := range info.Deps {
			id := fmt.Sprintf("module-%d", i)
			license, err := licenseOf(ctx, m.Path, m.Version)
			if err != nil {
				return err
			}
			add(id, m.Path, m.Version, license)
			relate("isogloss", "DEPENDS_ON", id)
		}
		var text bytes.Buffer
		if err := errors.Join(spdxjson.Write(document, &text, spdxjson.Indent("  ")), os.WriteFile(r.path("%s.spdx.json", name), text.Bytes(), 0o644)); err != nil { //nolint:gosec // an artefact
			return err
		}
	}
	return nil
}

const formula = `class Isogloss < Formula
  desc "LLM gateway between five dialects that reports every loss"
  homepage "{{.Repository}}"
  version "{{.Version}}"
  license "Apache-2.0"
{{range $os, $archives := .Systems}}
  on_{{$os}} do
{{- range $archives}}
    on_{{.Arch}} do
      url "{{$.Repository}}/releases/download/v{{$.Version}}/{{.File}}"
      sha256 "{{.Sum}}"
    end
{{- end}}
  end
{{end}}
  def install
    bin.install "isogloss"
    generate_completions_from_executable(bin/"isogloss", "completion")
  end

  service do
    run [opt_bin/"isogloss", "serve"]
    keep_alive true
    environment_variables ISOGLOSS_CONFIG: etc/"isogloss.yaml", ISOGLOSS_DATA: var/"isogloss"
  end

  test do
    assert_match "v#{version}", shell_output("#{bin}/isogloss version")
  end
end
`

// writeFormula writes the Homebrew formula, which installs the archives.
func (r *release) writeFormula(context.Context) error {
	type archive struct{ Arch, File, Sum string }
	systems := map[string][]archive{}
	names := map[string]string{"darwin": "macos", "linux": "linux", "amd64": "intel", "arm64": "arm"}
	for _, p := range r.platforms {
		if names[p.os] == "" {
			continue
		}
		sum, err := sumOf(r.path("%s", r.archiveName(p)))
		if err != nil {
			return err
		}
		systems[names[p.os]] = append(systems[names[p.os]], archive{names[p.arch], r.archiveName(p), sum})
	}
	out, err := os.Create(r.path("isogloss.rb"))
	if err != nil {
		return err
	}
	err = template.Must(template.New("").Parse(formula)).Execute(out, map[string]any{"Repository": repository, "Version": r.number(), "Systems": systems})
	return errors.Join(err, out.Close())
}

// sumOf returns the SHA-256 of a file in hexadecimal.
func sumOf(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // an artefact
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// artefact is a file with its SHA-256.
type artefact struct{ name, sum string }

// artefacts returns the files that are in the folder now, in the order of their names.
func (r *release) artefacts() (all []artefact, err error) {
	entries, err := os.ReadDir(r.out)
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		sum, err := sumOf(filepath.Join(r.out, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, artefact{e.Name(), sum})
	}
	return all, err
}

// writeProvenance writes an in-toto statement with SLSA provenance: from which commit the
// artefacts were built, and how.
func (r *release) writeProvenance(context.Context) error {
	all, err := r.artefacts()
	if err != nil {
		return err
	}
	type object = map[string]any
	var subjects []object
	for _, a := range all {
		subjects = append(subjects, object{"name": a.name, "digest": object{"sha256": a.sum}})
	}
	builder := "https://github.com/isogloss-gateway/isogloss/blob/main/deploy/release"
	if url := os.Getenv("GITHUB_SERVER_URL"); url != "" {
		builder = url + "/" + os.Getenv("GITHUB_WORKFLOW_REF")
	}
	text, err := json.MarshalIndent(object{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":            repository + "/blob/main/docs/install.md#releases",
				"externalParameters":   object{"version": r.version, "command": "make release VERSION=" + r.version},
				"resolvedDependencies": []object{{"uri": "git+" + repository + "@refs/tags/" + r.version, "digest": object{"gitCommit": r.commit}}},
			},
			"runDetails": object{"builder": object{"id": builder}},
		},
	}, "", "  ")
	return errors.Join(err, os.WriteFile(r.path("isogloss_%s.provenance.json", r.number()), append(text, '\n'), 0o644)) //nolint:gosec // an artefact
}

// writeChecksums writes the SHA-256 of every artefact, as sha256sum does.
func (r *release) writeChecksums(context.Context) error {
	all, err := r.artefacts()
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, a := range all {
		fmt.Fprintf(&text, "%s  %s\n", a.sum, a.name)
	}
	return os.WriteFile(r.path("checksums.txt"), []byte(text.String()), 0o644) //nolint:gosec // an artefact
}

// signChecksums signs the checksums, and so every artefact.
func (r *release) signChecksums(ctx context.Context) error {
	if !r.sign {
		return nil
	}
	args := []string{"sign-blob", "--yes", "--bundle", r.path("checksums.txt.sigstore.json")}
	if key := os.Getenv("COSIGN_KEY"); key != "" {
		args = append(args, "--key", key, "--tlog-upload=false", "--use-signing-config=false")
	}
	return run(exec.CommandContext(ctx, "cosign", append(args, r.path("checksums.txt"))...)) //nolint:gosec // the operator names the key
}
