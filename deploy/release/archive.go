package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// member is a file of an archive. Its text replaces the file's if it is not nil.
type member struct {
	source, name string
	mode         fs.FileMode
	text         []byte
}

func (m member) read() ([]byte, error) {
	if m.text != nil {
		return m.text, nil
	}
	return os.ReadFile(m.source)
}

// writeArchive writes a .zip or .tar.gz whose members have this time and no owner.
func writeArchive(path string, members []member, when time.Time) error {
	out, err := os.Create(path) //nolint:gosec // an artefact
	if err != nil {
		return err
	}
	write := writeTar
	if strings.HasSuffix(path, ".zip") {
		write = writeZip
	}
	return errors.Join(write(out, members, when), out.Close())
}

func writeTar(out io.Writer, members []member, when time.Time) error {
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(compressed)
	for _, m := range members {
		text, err := m.read()
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: m.name, Mode: int64(m.mode), Size: int64(len(text)), ModTime: when, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), compressed.Close())
}

func writeZip(out io.Writer, members []member, when time.Time) error {
	w := zip.NewWriter(out)
	for _, m := range members {
		text, err := m.read()
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: when}
		header.SetMode(m.mode)
		file, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(text); err != nil {
			return err
		}
	}
	return w.Close()
}

// buildChart packs the Helm chart with the version of the release.
func (r *release) buildChart(context.Context) error {
	const folder = "deploy/helm/isogloss"
	var members []member
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		m := member{path, strings.TrimPrefix(filepath.ToSlash(path), "deploy/helm/"), 0o644, nil}
		if d.Name() == "Chart.yaml" {
			text, err := m.read()
			if err != nil {
				return err
			}
			text = regexp.MustCompile(`(?m)^version: .*$`).ReplaceAll(text, []byte("version: "+r.number()))
			m.text = regexp.MustCompile(`(?m)^appVersion: .*$`).ReplaceAll(text, []byte("appVersion: "+r.version))
		}
		members = append(members, m)
		return nil
	})
	if err != nil {
		return err
	}
	return writeArchive(r.path("isogloss-chart_%s.tar.gz", r.number()), members, r.when)
}
