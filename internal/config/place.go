package config

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Place is the part of a configuration that administration commands need, such as isogloss
// keys.
type Place struct {
	// Config has Listen, Data, Store, Cell and Node, and the rest only if Wrong is nil.
	*Config
	DataSet bool               // the file or the environment sets data
	Wrong   *settings.Problems // mistakes in the rest of the file; nil: none
}

// placeKeys are the settings of a Place.
var placeKeys = []string{"listen", "data", "store", "cell", "node"}

// LoadPlace is Load for commands that administer a gateway. A mistake in other settings than those of a
// Place, also one of syntax, does not keep them from working.
func LoadPlace(path string, env func(string) (string, bool), overrides ...settings.Override) (*Place, error) {
	p := &Place{}
	c, err := Load(path, env, overrides...)
	if errors.As(err, &p.Wrong) {
		var text []byte
		if text, err = os.ReadFile(path); err != nil { //nolint:gosec // the operator names the file
			return nil, err
		}
		kept, found := cutPlace(text)
		if !found { // the mistake may be the place of the store
			return nil, p.Wrong
		}
		overrides = slices.DeleteFunc(slices.Clone(overrides), func(o settings.Override) bool { return !slices.Contains(placeKeys, o.Key) })
		c, err = parse(path, kept, env, &Config{isPlace: true}, overrides)
	}
	if err != nil {
		return nil, err
	}
	p.Config = c
	p.DataSet = slices.ContainsFunc(c.Settings, func(s settings.Setting) bool { return s.Key == "data" && (s.Line > 0 || s.Source != "") })
	return p, nil
}

// topLevel is the key of an entry that begins in the first column.
var topLevel = regexp.MustCompile(`^["']?([^\s"':{}\[\]#-][^\s"':]*)["']?\s*:`)

// cutPlace returns a file with the entries of placeKeys only, on the lines where they were, and whether store
// is one of them. It finds none in a file of another form than one entry below the other.
func cutPlace(text []byte) (kept []byte, found bool) {
	keep := false
	for line := range bytes.Lines(text) {
		switch m := topLevel.FindSubmatch(bytes.TrimPrefix(line, []byte("\ufeff"))); {
		case bytes.HasPrefix(line, []byte("<<")), bytes.HasPrefix(line, []byte("{")), bytes.HasPrefix(line, []byte("?")):
			return nil, false
		case m != nil:
			keep = slices.Contains(placeKeys, string(m[1]))
			found = found || string(m[1]) == "store"
		case len(bytes.TrimSpace(line)) > 0 && line[0] != ' ' && line[0] != '#' && line[0] != '-':
			keep = false
		}
		if !keep {
			line = []byte("\n")
		}
		kept = append(kept, line...)
	}
	return kept, found
}
