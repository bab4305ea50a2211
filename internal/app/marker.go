package app

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/config"
)

// serviceData is the data folder of the packages and of the image.
const serviceData = "/var/lib/isogloss"

// checkMarker fails unless the store of a command is certainly the store of the gateway. It is for a store
// whose file or pepper is in the data folder, while no gateway runs.
func (o *Options) checkMarker(p *config.Place) error {
	if len(p.Store.Peppers) > 0 && !running.SameFile(filepath.Dir(p.Store.File()), p.Data) {
		return nil
	}
	switch last, err := running.ReadMarker(p.Data); {
	case err == nil && !running.SameFile(last.Configuration, o.Config):
		return fmt.Errorf("the data folder %s was last used by the gateway of %s, and the configuration is %s; name that file with -c, or start the gateway with this one: commands then ask it", p.Data, last.Configuration, o.Config)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the file that names the gateway of the data folder cannot be read: %w; start the gateway: commands then ask it", err)
	}
	usual := o.serviceData
	if usual == "" {
		usual = serviceData
	}
	last, err := running.ReadMarker(usual)
	if err == nil && !p.DataSet && running.SameFile(last.Configuration, o.Config) && !running.SameFile(usual, p.Data) {
		return fmt.Errorf("the gateway of %s last used the data folder %s; without its environment the file means %s; write 'data: %s' into it, or start the gateway: commands then ask it", o.Config, usual, p.Data, usual)
	}
	return nil
}
