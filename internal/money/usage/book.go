package usage

import (
	_ "embed" // the price table
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/isogloss-gateway/isogloss/llm"
)

//go:embed prices.yaml
var table []byte

// BookOptions are the operator's prices.
type BookOptions struct {
	// Rules are prices by pattern: "provider/model", or a prefix that ends in *. The longest
	// pattern wins. Rules win over the built-in table.
	Rules map[string]Tariff
	// Lists are further prices, of clouds, regions and tiers.
	Lists []PriceList
	// Ceiling is the price of models without a price. Nil: they have none.
	Ceiling *Tariff
}

// Book finds the price of a model. It is immutable.
type Book struct {
	own     rules             // the operator's, by provider/model
	lists   []list            // the operator's, the most specific first
	tiers   []string          // of lists
	vendors map[string]*rules // built in, by preset, then by model
	ceiling *Price
}

// rules are prices by model name. An exact name wins over a prefix.
type rules struct {
	exact    map[string]Price
	prefixes []prefix // longest first
}

type prefix struct {
	name  string // without the *
	price Price
}

func (r *rules) find(name string) (Price, bool) {
	if p, ok := r.exact[name]; ok {
		return p, true
	}
	for i := range r.prefixes {
		if strings.HasPrefix(name, r.prefixes[i].name) {
			return r.prefixes[i].price, true
		}
	}
	return Price{}, false
}

// NewBook combines the operator's rules with the built-in table. It reports all mistakes at once.
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
	b.addLists(o.Lists, &wrong)
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

// Find returns the price of a target, "provider/model", whose provider has the given preset. It
// reports false if neither the rules nor the table have one and there is no ceiling.
func (b *Book) Find(preset, target string) (p Price, known bool) {
	return b.Lookup(Query{Preset: preset, Target: target})
}

// Lookup returns the price of a query: from the lists of its tier, the rules, the lists of all
// tiers, the built-in table, or else the ceiling. It reports false if there is none.
func (b *Book) Lookup(q Query) (p Price, known bool) {
	if p, ok := b.fromLists(q, tierOf(q.Tier)); ok {
		return p, true
	}
	if p, ok := b.own.find(q.Target); ok {
		return p, true
	}
	if p, ok := b.fromLists(q, ""); ok {
		return p, true
	}
	if v := b.vendors[q.Preset]; v != nil {
		if p, ok := v.find(q.model()); ok {
			return p, true
		}
	}
	if b.ceiling != nil {
		return *b.ceiling, true
	}
	return Price{}, false
}

// Names returns the names of the models of a preset in the built-in table, in alphabetical
// order.
func (b *Book) Names(preset string) []string {
	v := b.vendors[preset]
	if v == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(v.exact))
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
		r.prefixes = append(r.prefixes, prefix{name, p})
		return nil
	}
	if r.exact == nil {
		r.exact = make(map[string]Price)
	}
	r.exact[name] = p
	return nil
}

func (r *rules) sort() {
	slices.SortFunc(r.prefixes, func(a, b prefix) int { return len(b.name) - len(a.name) })
}

// Price parses the tariff.
func (t Tariff) Price() (Price, error) {
	p := Price{Context: t.Context, Above: t.Above}
	var wrong []error
	read := func(to *Rate, name, text string) {
		r, err := ParseRate(text)
		if text == "" {
			err = errors.New("is required, even if it is 0")
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
	wrong = append(wrong, t.units(&p)...)
	if err := t.long(&p); err != nil {
		wrong = append(wrong, err)
	}
	return p, errors.Join(wrong...)
}

// long parses the price of long prompts. It must not be lower than the normal price: a reservation
// relies on the cost growing with the prompt.
func (t Tariff) long(p *Price) error {
	if t.Long == nil && t.Above == 0 {
		return nil
	}
	if t.Long == nil || t.Above <= 0 || t.Long.Long != nil || t.Long.Above != 0 {
		return errors.New("above and long are needed together and cannot be nested: the length of a prompt, and the price beyond it")
	}
	l, err := t.Long.Price()
	if err != nil {
		return fmt.Errorf("long: %w", err)
	}
	short, long := p.rates(), l.rates()
	lower := l.Request < p.Request
	for i := range llm.UnitCount {
		lower = lower || long.Of(i) < short.Of(i)
	}
	if lower {
		return errors.New("long: a price beyond the limit is lower than below it")
	}
	p.Long = &l
	return nil
}

// vendor is an entry of the built-in table. Source says where the prices were found.
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
