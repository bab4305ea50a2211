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
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/local"
)

// Path is the path at the local socket at which a gateway says its Identity.
const Path = "/gateway"

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
	text, err := io.ReadAll(io.LimitReader(r, maxIdentity+1))
	if err != nil {
		return id, err
	}
	if len(text) > maxIdentity {
		return id, errors.New("the identity of a gateway is too long")
	}
	err = json.Unmarshal(text, &id)
	return id, err
}

// Gateway is a gateway that runs on this machine.
type Gateway struct {
	Identity
	socket string
}

// Ask returns the gateway at a socket.
func Ask(ctx context.Context, socket string) (*Gateway, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+Path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := local.Transport(socket).RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", socket, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	id, err := readIdentity(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || id.PID == 0 {
		return nil, fmt.Errorf("%s: the program that listens there is no gateway of this version", socket)
	}
	return &Gateway{id, socket}, nil
}

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
