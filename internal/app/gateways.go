package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/edge/local"
)

// errNoGateway says that no running gateway fits.
var errNoGateway = errors.New("no gateway was found")

// placeText describes a store with its data folder.
func placeText(store, data string) string {
	if store == "" {
		store = "no store"
	}
	return store + " with the data folder " + data
}

// findGateway returns the running gateway that a command means: by --socket, by the address of --listen, or by
// the configuration file. A nil place is a file that cannot be read, or none.
func (o *Options) findGateway(ctx context.Context, p *config.Place) (*running.Gateway, error) {
	if o.Socket != "" {
		return running.Ask(ctx, o.Socket)
	}
	var all []string
	var found []*running.Gateway
	for _, socket := range local.Sockets() {
		if !o.Trusts(socket, p) {
			continue
		}
		g, err := running.Ask(ctx, socket)
		if err != nil {
			continue // it has ended, or it is a program of another kind
		}
		all = append(all, g.Address)
		fits, err := o.fits(g, p)
		if err != nil {
			return nil, err
		}
		if fits {
			found = append(found, g)
		}
	}
	switch {
	case o.Listen != "" && len(found) == 0 && len(all) > 0:
		return nil, fmt.Errorf("no gateway listens on %s; there is one on %s", o.Listen, strings.Join(all, " and "))
	case o.Listen != "" && len(found) == 0:
		return nil, fmt.Errorf("no gateway of this user was found on this machine; start it with 'isogloss serve', or leave out --listen")
	case len(found) == 0:
		return nil, errNoGateway
	case len(found) > 1 && o.Config == "":
		return nil, fmt.Errorf("several gateways run on this machine, on %s; choose one with -c or --listen", strings.Join(all, " and "))
	}
	return found[0], nil
}

// fits reports whether a command means a gateway. It fails for the gateway of its file, or on its address, if
// that has another store than the file says.
func (o *Options) fits(g *running.Gateway, p *config.Place) (bool, error) {
	switch {
	case o.Listen != "":
		return g.Address == o.Listen, nil
	case o.Config == "":
		return true, nil
	}
	same := running.SameFile(o.Config, g.Configuration)
	if p == nil {
		return same, nil
	}
	store := p.Store.AbsoluteName()
	// Gateways with a shared database have a data folder each.
	agrees := running.SameStore(g.Store, store) && (!p.Store.SQLite() || running.SameFile(p.Data, g.Data))
	if same && !p.DataSet {
		// The gateway's environment may have named the data folder, and with it the store's file.
		agrees = running.SameStore(g.Store, store) || p.Store.SQLite() && strings.HasPrefix(g.Store, "sqlite:")
	}
	switch {
	case agrees:
		return same || p.Store.SQLite(), nil
	case same || g.Address == p.Listen:
		return false, fmt.Errorf("the gateway on %s (process %d, configuration %s) has %s; %s says %s; restart the gateway with this file, name its file with -c, or use the running gateway with --listen %s",
			g.Address, g.PID, g.Configuration, placeText(g.Store, g.Data), o.Config, placeText(store, p.Data), g.Address)
	}
	return false, nil
}

// Trusts reports whether a socket's gateway may be asked. Root asks the gateway of another user only if that
// user could change the store anyway, or if the service manager has made the folder. The place may be nil.
func (o *Options) Trusts(socket string, p *config.Place) bool {
	uid, err := local.Owner(socket)
	if err != nil {
		return false
	}
	return uid == os.Geteuid() || local.OfService(socket) || local.Owns(uid, o.Config) || p != nil && local.Owns(uid, p.Data)
}
