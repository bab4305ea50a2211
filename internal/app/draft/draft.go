// Package draft writes a configuration for the keys in the environment and the engines on a machine.
package draft

import (
	_ "embed" // the file
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

//go:embed draft.yaml
var template string

// draft is a configuration for what was found on this machine.
type draft struct {
	Listen  string
	Vendors []provider.Preset // whose keys are in the environment
	Own     []provider.Preset // likewise, but every account has its own address
	Engines []engine
}

// engine is an engine that runs on this machine.
type engine struct {
	Name, URL string // of the provider
	Models    []string
}

// Write returns a commented configuration for the providers whose keys are in the environment and for
// engines.
func Write(env func(string) (string, bool), workers []discover.Worker) ([]byte, error) {
	d := draft{Listen: config.Default().Listen}
	var wanted []string
	for _, p := range provider.Catalog() {
		key, _ := env(p.EnvKey)
		switch {
		case p.EnvKey == "":
		case strings.TrimSpace(key) == "":
			wanted = append(wanted, p.EnvKey)
		case p.BaseURL == "":
			d.Own = append(d.Own, p)
		default:
			d.Vendors = append(d.Vendors, p)
		}
	}
	d.addEngines(workers)
	if len(d.Vendors) == 0 && len(d.Engines) == 0 {
		return nil, fmt.Errorf("nothing was found to configure: set a key such as %s, or start an engine on this machine: %s", strings.Join(wanted[:min(3, len(wanted))], ", "), EngineNames())
	}
	// Not text/template: it keeps the linker from removing unused methods, which costs 15 MB.
	return []byte(strings.NewReplacer("LISTEN", d.Listen, "PROVIDERS\n", d.providers(), "MODELS\n", d.models()).Replace(template)), nil
}

// providers returns the lines of the providers.
func (d *draft) providers() string {
	var b strings.Builder
	for _, p := range d.Vendors {
		fmt.Fprintf(&b, "  %s: { preset: %s, api_key: \"${%s}\" }   # %s\n", p.Name, p.Name, p.EnvKey, p.Title)
	}
	for _, e := range d.Engines {
		fmt.Fprintf(&b, "  %s: { preset: %s, base_url: %q }   # runs on this machine\n", e.Name, e.Name, e.URL)
	}
	for _, p := range d.Own {
		where := "base_url: \"https://…\""
		if p.Template != "" {
			where = "region: …"
		}
		fmt.Fprintf(&b, "  # %s has an address for every account. Write yours.\n", p.Title)
		fmt.Fprintf(&b, "  # %s: { preset: %s, %s, api_key: \"${%s}\" }\n", p.Name, p.Name, where, p.EnvKey)
	}
	return b.String()
}

// models returns the lines of the models.
func (d *draft) models() string {
	var b strings.Builder
	for _, p := range d.Vendors {
		fmt.Fprintf(&b, "  \"%s/*\": { targets: [\"%s/*\"] }\n", p.Name, p.Name)
	}
	for _, e := range d.Engines {
		for _, m := range e.Models {
			fmt.Fprintf(&b, "  %q: { targets: [%q] }\n", m, e.Name+"/"+m)
		}
	}
	return b.String()
}

// usableName is a model name of an engine that can be written into the file as it is.
var usableName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$`)

// maxModels limits the models of one engine in the file.
const maxModels = 100

// addEngines adds the engines with their models, each under its own name.
func (d *draft) addEngines(workers []discover.Worker) {
	taken := map[string]bool{}
	for _, p := range d.Vendors {
		taken[p.Name] = true
	}
	served := map[string]bool{} // models, of which two engines may have the same
	for _, w := range workers {
		if !usableName.MatchString(w.Model) || slices.Contains(strings.Split(w.Model, "/"), "..") || slices.Contains(strings.Split(w.Model, "/"), ".") || served[w.Model] || w.Name != "" && w.Name != w.Model {
			continue
		}
		i := slices.IndexFunc(d.Engines, func(e engine) bool { return e.URL == w.URL })
		if i < 0 {
			if w.Engine == "" || taken[w.Engine] {
				continue
			}
			taken[w.Engine] = true
			i, d.Engines = len(d.Engines), append(d.Engines, engine{Name: w.Engine, URL: w.URL})
		}
		if len(d.Engines[i].Models) < maxModels {
			served[w.Model] = true
			d.Engines[i].Models = append(d.Engines[i].Models, w.Model)
		}
		if strings.HasPrefix(w.URL, "http://"+config.Default().Listen+"/") {
			d.Listen = BesideEngine
		}
	}
}

// EngineNames lists the engines that are looked for, with their ports, for a message.
func EngineNames() string {
	var names []string
	for _, e := range discover.Engines() {
		names = append(names, e.Name+" on port "+strconv.Itoa(e.Port))
	}
	return strings.Join(names, ", ")
}

// BesideEngine is the listen address if an engine such as llama.cpp uses the default
// port and no other was chosen. The admin port stays at the default.
const BesideEngine = "127.0.0.1:8082"
