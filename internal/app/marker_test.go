package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/config"
)

// TestMarkersOfServices checks when a command stops because it is not certain that it finds the gateway's store: the
// packaged unit names its data folder in a variable, which a shell does not have.
func TestMarkersOfServices(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "isogloss.yaml"), filepath.Join(dir, "other.yaml")
	for _, name := range []string{file, other} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder := func(usedBy string) string {
		data := t.TempDir()
		if usedBy == "" {
			return data
		}
		if err := running.WriteMarker(running.Identity{Configuration: usedBy, Data: data}); err != nil {
			t.Fatal(err)
		}
		return data
	}
	broken := folder(file)
	if err := os.WriteFile(filepath.Join(broken, "gateway.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	service, beside := folder(file), folder("")
	for name, c := range map[string]struct {
		data, service string
		set           bool // the file or the environment says where the data is
		peppers       bool
		elsewhere     string // of the SQLite file
		want          []string
	}{
		"no gateway has run":                                              {data: beside, service: folder("")},
		"the service's folder, which the file says":                       {data: service, service: service, set: true},
		"the folder beside the file, while the service uses its own":      {data: beside, service: service, want: []string{file, service, beside, "data: " + service}},
		"a folder that the file says, while the service used another":     {data: beside, service: service, set: true},
		"the service has another file":                                    {data: beside, service: folder(other)},
		"the folder was last used with another file":                      {data: folder(other), service: folder(""), want: []string{other, file, "-c"}},
		"a marker that is cut":                                            {data: broken, service: folder(""), want: []string{"cannot be read"}},
		"a service's marker that is cut":                                  {data: beside, service: broken},
		"the store is elsewhere and the peppers are in the file":          {data: folder(other), service: service, peppers: true, elsewhere: t.TempDir()},
		"the store is in the folder, and the peppers are in the file":     {data: folder(other), service: folder(""), peppers: true, want: []string{other}},
		"the store is elsewhere, and its pepper in another file's folder": {data: folder(other), service: folder(""), elsewhere: t.TempDir(), want: []string{other}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &config.Config{Data: c.data}
			at := c.data
			if c.elsewhere != "" {
				at = c.elsewhere
			}
			cfg.Store.URL = secret.String("sqlite:" + filepath.Join(at, "isogloss.db"))
			if c.peppers {
				cfg.Store.Peppers = []secret.String{"p"}
			}
			o := &Options{Config: file, serviceData: c.service}
			err := o.checkMarker(&config.Place{Config: cfg, DataSet: c.set})
			if (err != nil) != (len(c.want) > 0) {
				t.Fatalf("%v", err)
			}
			for _, text := range c.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v lacks %s", err, text)
				}
			}
		})
	}
}
