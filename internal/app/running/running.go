// Package running says which gateway runs at a socket, and which used a data folder last.
package running

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/local"
)

// Paths at the local socket: the Identity of a gateway, its Configuration, its metrics, and the last lines of its log.
const (
	Path              = "/gateway"
	ConfigurationPath = "/configuration"
	MetricsPath       = "/metrics"
	LogPath           = "/log"
)

// markerFile is the file in a data folder with the identity of the gateway that used it last.
const markerFile = "gateway.json"

// maxIdentity is the maximum size of an identity in bytes.
const maxIdentity = 64 << 10

// askTimeout limits how long a gateway may take to say which one it is.
const askTimeout = 3 * time.Second

// Identity says which gateway uses a socket or a data folder. Paths are absolute.
type Identity struct {
	Configuration string `json:"configuration"` // file; empty: the environment
	Address       string `json:"address"`       // of the client port
	Data          string `json:"data"`          // folder
	Store         string `json:"store"`         // without credentials; empty: none
	Node          string `json:"node"`
	Version       string `json:"version"`
	PID           int    `json:"pid"`
}

// Configuration is what a gateway runs with.
type Configuration struct {
	Loaded  time.Time `json:"loaded"`            // when the file was last applied
	Text    string    `json:"text"`              // the settings in effect, one on each line, without secrets
	Refused []string  `json:"refused,omitempty"` // why the changed file was refused; empty: it was not
	Waiting []string  `json:"waiting,omitempty"` // settings that were changed and take effect at the next start
}

// WriteMarker writes an identity into its data folder. It replaces a link and does not follow it.
func WriteMarker(id Identity) error {
	text, err := json.Marshal(id)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(id.Data, markerFile+".*") // readable for the owner only
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(id.Data, markerFile))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it holds no secret
	}
	return err
}

// ReadMarker returns the identity of the gateway that used a data folder last.
func ReadMarker(data string) (id Identity, err error) {
	path := filepath.Join(data, markerFile)
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() { // root may read the folder of another user
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		return id, err
	}
	f, err := os.Open(path) //nolint:gosec // the operator names the folder
	if err != nil {
		return id, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return readIdentity(f)
}

// readIdentity reads an identity of at most maxIdentity bytes.
func readIdentity(r io.Reader) (id Identity, err error) {
	text, err := readAll(r, maxIdentity)
	if err == nil {
		err = json.Unmarshal(text, &id)
	}
	return id, err
}

// readAll reads a text. One of more bytes is an error.
func readAll(r io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("there are more than %d bytes", most)
	}
	return text, err
}

// Gateway is a gateway that runs on this machine.
type Gateway struct {
	Identity
	socket string
}

// Ask returns the gateway at a socket.
func Ask(ctx context.Context, socket string) (*Gateway, error) {
	text, err := read(ctx, socket, Path, maxIdentity)
	if err != nil {
		return nil, err
	}
	g := &Gateway{socket: socket}
	if err := json.Unmarshal(text, &g.Identity); err != nil || g.PID == 0 {
		return nil, fmt.Errorf("%s: %w", socket, errOther)
	}
	return g, nil
}

// Read returns what the gateway serves at a path, up to a number of bytes.
func (g *Gateway) Read(ctx context.Context, path string, most int64) ([]byte, error) {
	return read(ctx, g.socket, path, most)
}

// read returns what a gateway serves at a path. A longer text is an error.
func read(ctx context.Context, socket, path string, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := local.Transport(socket).RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", socket, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %w", socket, errOther)
	}
	text, err := readAll(resp.Body, most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", socket, errOther, err)
	}
	return text, nil
}

var errOther = errors.New("the program that listens there is no gateway of this version")

// Transport returns a transport to the gateway. It says whether a change may have been made if the gateway ends
// before its response.
func (g *Gateway) Transport() http.RoundTripper {
	return transport{local.Transport(g.socket), g.Address}
}

type transport struct {
	http.RoundTripper
	address string
}

// RoundTrip sends a request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	switch {
	case err == nil:
		return resp, nil
	case errors.Is(err, local.ErrNotRunning):
		return nil, fmt.Errorf("the gateway on %s has stopped, and nothing was changed; run the command again", t.address)
	case r.Method == http.MethodGet:
		return nil, fmt.Errorf("the gateway on %s has stopped before its response: %w; run the command again", t.address, err)
	}
	return nil, fmt.Errorf("the gateway on %s has stopped before its response: %w; the change may have been made: look with 'isogloss keys list' before you run the command again", t.address, err)
}

// SameStore reports whether two names of stores, with absolute paths, are of one store.
func SameStore(a, b string) bool {
	fileA, sqliteA := strings.CutPrefix(a, "sqlite:")
	fileB, sqliteB := strings.CutPrefix(b, "sqlite:")
	return a == b || sqliteA && sqliteB && SameFile(fileA, fileB)
}

// SameFile reports whether two paths are one file or folder. Neither needs to exist. An empty path is none.
func SameFile(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	if errA == nil && errB == nil && absA == absB {
		return true
	}
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
