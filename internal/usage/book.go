package usage

import (
	_ "embed" // the price table
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed prices.yaml
var table []byte

// Tariff is a price as it is written: dollars per million tokens, in decimal text, so
// that no digit is lost on the way. Input and Output have to be written, even zero.
type Tariff struct {
	Input      string `yaml:"input"`
	Output     string `yaml:"output"`
	CacheRead  string `yaml:"cache_read"`  // default: as Input
	CacheWrite string `yaml:"cache_write"` // default: as Input
	Reasoning  string `yaml:"reasoning"`   // default: as Output
	Request    string `yaml:"request"`     // dollars for each request; default: none
	Context    int64  `yaml:"context"`     // window of the model in tokens; 0 is not known
	// Above is the length of a prompt beyond which Long is the price of all tokens.
	Above int64   `yaml:"above"`
	Long  *Tariff `yaml:"long"`
}

// BookOptions is what the operator says about prices.
type BookOptions struct {
	// Rules are prices by pattern: "provider/model" whole or with * at the end. The
	// longest pattern wins, and any of them wins over the built-in table.
	Rules map[string]Tariff
	// Ceiling is the price of a model that has none. Nil is that there is no price.
	Ceiling *Tariff
}

// Book finds the price of a model. It does not change, so anyone may read it.
type Book struct {
	own     rules             // by provider/model
	vendors map[string]*rules // by preset, then by model
	ceiling *Price
}

// rules are prices by name. A whole name is longer than any pattern that fits it.
type rules struct {
	whole map[string]Price
	open  []prefix // the longest first
}

type prefix struct {
	name  string // without the *
	price Price
}

func (r *rules) find(name string) (Price, bool) {
	if p, ok := r.whole[name]; ok {
		return p, true
	}
	for i := range r.open {
		if strings.HasPrefix(name, r.open[i].name) {
			return r.open[i].price, true
		}
	}
	return Price{}, false
}

// NewBook reads the built-in table and puts the operator's rules before it. All
// mistakes are reported at once.
func NewBook(o BookOptions) (*Book, error) {
	vendors, err := readTable(table)
	if err != nil {
		return nil, fmt.Errorf("usage: the built-in price table: %w", err)
	}
	b := &Book{vendors: vendors}
	var wrong []error
	for pattern, t := range o.Rules {
		if err := b.own.add(pattern, t); err != nil {
			wrong = append(wrong, err)
		}
	}
	b.own.sort()
	if o.Ceiling != nil {
		p, err := o.Ceiling.Price()
		if err != nil {
			wrong = append(wrong, fmt.Errorf("ceiling: %w", err))
		}
		p.Ceiling = true
		b.ceiling = &p
	}
	if len(wrong) > 0 {
		slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return nil, errors.Join(wrong...)
	}
	return b, nil
}

// Find is the price of a target, "provider/model", of a provider with that preset. It
// is not known where neither the operator nor the table says it and there is no
// ceiling; it is never zero for want of knowledge.
func (b *Book) Find(preset, target string) (p Price, known bool) {
	if p, ok := b.own.find(target); ok {
		return p, true
	}
	if _, model, ok := strings.Cut(target, "/"); ok {
		if v := b.vendors[preset]; v != nil {
			if p, ok := v.find(model); ok {
				return p, true
			}
		}
	}
	if b.ceiling != nil {
		return *b.ceiling, true
	}
	return Price{}, false
}

func (r *rules) add(pattern string, t Tariff) error {
	name, open := strings.CutSuffix(pattern, "*")
	if pattern == "" || strings.Contains(name, "*") {
		return fmt.Errorf("%q: a * may only stand at the end of a pattern", pattern)
	}
	p, err := t.Price()
	if err != nil {
		return fmt.Errorf("%q: %w", pattern, err)
	}
	if open {
		r.open = append(r.open, prefix{name, p})
		return nil
	}
	if r.whole == nil {
		r.whole = make(map[string]Price)
	}
	r.whole[name] = p
	return nil
}

func (r *rules) sort() {
	slices.SortFunc(r.open, func(a, b prefix) int { return len(b.name) - len(a.name) })
}

// Price reads the text.
func (t Tariff) Price() (Price, error) {
	p := Price{Context: t.Context, Above: t.Above}
	var wrong []error
	read := func(to *Rate, name, text string) {
		r, err := ParseRate(text)
		if text == "" {
			err = errors.New("has to be written, even if it is 0")
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
		}
		*to = r
	}
	read(&p.Input, "input", t.Input)
	read(&p.Output, "output", t.Output)
	p.CacheRead, p.CacheWrite, p.Reasoning = p.Input, p.Input, p.Output
	if t.CacheRead != "" {
		read(&p.CacheRead, "cache_read", t.CacheRead)
	}
	if t.CacheWrite != "" {
		read(&p.CacheWrite, "cache_write", t.CacheWrite)
	}
	if t.Reasoning != "" {
		read(&p.Reasoning, "reasoning", t.Reasoning)
	}
	if t.Request != "" {
		fee, err := ParseMoney(t.Request)
		if err != nil || fee < 0 {
			wrong = append(wrong, fmt.Errorf("request: %q is not a price in dollars; write it like 0.005", t.Request))
		}
		p.Request = fee
	}
	if err := t.long(&p); err != nil {
		wrong = append(wrong, err)
	}
	return p, errors.Join(wrong...)
}

// long reads the price of long prompts. A longer prompt must not be cheaper: the cost
// of a request would fall while it grows, and no reservation could be trusted.
func (t Tariff) long(p *Price) error {
	if t.Long == nil && t.Above == 0 {
		return nil
	}
	if t.Long == nil || t.Above <= 0 || t.Long.Long != nil || t.Long.Above != 0 {
		return errors.New("above and long belong together, once: the length of a prompt, and the price beyond it")
	}
	l, err := t.Long.Price()
	if err != nil {
		return fmt.Errorf("long: %w", err)
	}
	if l.Input < p.Input || l.CacheRead < p.CacheRead || l.CacheWrite < p.CacheWrite || l.Output < p.Output || l.Reasoning < p.Reasoning || l.Request < p.Request {
		return errors.New("long: a price beyond the limit is lower than below it")
	}
	p.Long = &l
	return nil
}

// vendor is one entry of the table. Source says where the prices were looked up.
type vendor struct {
	Preset string `yaml:"preset"`
	AsOf   string `yaml:"as_of"`
	Source string `yaml:"source"`
	Prices []struct {
		Models []string `yaml:"models"`
		Tariff `yaml:",inline"`
	} `yaml:"prices"`
}

func readTable(text []byte) (map[string]*rules, error) {
	var file struct {
		Vendors []vendor `yaml:"vendors"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		return nil, err
	}
	vendors := make(map[string]*rules)
	for _, v := range file.Vendors {
		list := new(rules)
		for _, row := range v.Prices {
			for _, model := range row.Models {
				if err := list.add(model, row.Tariff); err != nil {
					return nil, fmt.Errorf("%s: %w", v.Preset, err)
				}
			}
		}
		list.sort()
		vendors[v.Preset] = list
	}
	return vendors, nil
}
