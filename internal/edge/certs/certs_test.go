package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// issue writes a self-signed certificate.
func issue(t *testing.T, f Files, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestChangedFiles checks what is logged and served after each change of the files.
func TestChangedFiles(t *testing.T) {
	for _, signIn := range []bool{false, true} {
		dir := t.TempDir()
		files := Files{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
		issue(t, files, 1)
		var log strings.Builder
		c := &certificate{setting: "tls", files: files, leaves: NewLeaves(slog.New(slog.NewTextHandler(&log, nil)), func() bool { return signIn })}
		look := func(about, want string) *x509.Certificate {
			t.Helper()
			c.looked = time.Time{}
			log.Reset()
			got, err := c.configForClient(nil)
			if err != nil || !strings.Contains(log.String(), want) || want == "" && log.Len() > 0 {
				t.Errorf("%s: %v, %q, want %q", about, err, log.String(), want)
			}
			return got.Certificates[0].Leaf
		}
		changed := `level=INFO msg="certificate loaded"`
		if signIn {
			changed = `level=WARN msg="the certificate has changed"`
		}
		look("first", "certificate loaded")
		look("the same", "")
		text, err := os.ReadFile(files.Cert)
		if err != nil {
			t.Fatal(err)
		}
		write(t, files.Cert, append(text, "\na comment\n"...))
		look("the same in another file", "")
		issue(t, files, 2)
		if leaf := look("another", changed); leaf.SerialNumber.Int64() != 2 {
			t.Errorf("serial %v", leaf.SerialNumber)
		}
		write(t, files.Key, []byte("x"))
		look("broken", "cannot be used")
		look("still broken", "")
		if err := os.Remove(files.Key); err != nil {
			t.Fatal(err)
		}
		look("missing", "cannot be used")
		if leaf := look("still missing", ""); leaf.SerialNumber.Int64() != 2 {
			t.Errorf("serial %v", leaf.SerialNumber)
		}
		issue(t, files, 3)
		if leaf := look("back", changed); leaf.SerialNumber.Int64() != 3 {
			t.Errorf("serial %v", leaf.SerialNumber)
		}
	}
}

// TestExpiring looks at a certificate before and after its end.
func TestExpiring(t *testing.T) {
	dir := t.TempDir()
	files := Files{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	issue(t, files, 1)
	var leaves Ports
	c, err := New("tls", files, leaves.New(slog.New(slog.DiscardHandler), nil))
	if err != nil {
		t.Fatal(err)
	}
	one, err := c.GetConfigForClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	end := one.Certificates[0].Leaf.NotAfter
	if list := leaves.Expiring(end); len(list) != 0 {
		t.Errorf("%v", list)
	}
	if list := leaves.Expiring(end.Add(time.Second)); len(list) != 1 || !list[0].NotAfter.Equal(end) || len(list[0].Fingerprint) != 32 || !strings.HasPrefix(list[0].Name, "tls ") {
		t.Errorf("%v", list)
	}
}
