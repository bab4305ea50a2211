package usage

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Prices is the set of token prices.
type Prices struct {
	// What to do with a request of a key with a budget for a model without a price:
	// refuse it, or charge the ceiling. The default is refuse.
	Unknown string `key:"unknown" enum:"refuse,ceiling" example:"ceiling"`
	// Price of models without a price.
	Ceiling *Tariff `key:"ceiling"`
	// Prices by target, as provider/model. A name that ends in `*` matches every
	// target with that prefix.
	Models map[string]Tariff `key:"models"`
	// Prices of clouds, regions and service tiers. The lists of the tier that a response
	// names come before models, and the lists without a tier after it. Of several lists
	// the one that names the provider wins, then the region, then the cloud.
	Lists []PriceList `key:"lists"`
}

// PriceList is a list of prices that holds for a provider, a region or a cloud.
type PriceList struct {
	// Provider for which the list holds. The default is every one.
	Provider string `key:"provider" example:"bedrock-eu"`
	// Cloud for which the list holds. The default is every one.
	Cloud string `key:"cloud" enum:"aws,google,azure" example:"aws"`
	// Region or location of the cloud, as the provider has it. The default is every one.
	Region string `key:"region" example:"eu-central-1"`
	// Service tier that the response names. Tokens of provisioned throughput are paid by
	// the hour: write 0. The default is all tiers without a list.
	Tier string `key:"tier" enum:"standard,batch,flex,priority,provisioned" example:"priority"`
	// Day on which the prices were looked up. The gateway warns if it is more than half a
	// year ago.
	AsOf string `key:"as_of" example:"2026-11-01"`
	// Prices by model of the provider. A name that ends in `*` matches every model with
	// that prefix.
	Models map[string]Tariff `key:"models"`
}

// Tariff is a price in dollars per million tokens.
type Tariff struct {
	// Input tokens that the prompt cache neither served nor stored.
	Input string `key:"input" pattern:"^[0-9]{1,9}(\\.[0-9]{1,9})?$" form:"an amount of dollars" example:"2.50" yaml:"input"`
	// Tokens read from the provider's prompt cache. The default is the price of
	// input.
	CacheRead string `key:"cache_read" pattern:"^[0-9]{1,9}(\\.[0-9]{1,9})?$" form:"an amount of dollars" example:"0.25" yaml:"cache_read"`
	// Tokens written to the provider's prompt cache. The default is the price of
	// input.
	CacheWrite string `key:"cache_write" pattern:"^[0-9]{1,9}(\\.[0-9]{1,9})?$" form:"an amount of dollars" example:"3.125" yaml:"cache_write"`
	// Output tokens.
	Output string `key:"output" pattern:"^[0-9]{1,9}(\\.[0-9]{1,9})?$" form:"an amount of dollars" example:"10" yaml:"output"`
	// Reasoning tokens. The default is the price of output.
	Reasoning string `key:"reasoning" pattern:"^[0-9]{1,9}(\\.[0-9]{1,9})?$" form:"an amount of dollars" example:"10" yaml:"reasoning"`
	// Prices of further [units](operations/money.md#units) by name, for a million or for a
	// piece. The default is the price of the unit that includes them, or 0.
	Units map[string]string `key:"units" pattern:"^[0-9]{1,9}(\\.[0-9]{1,9})?$" form:"an amount of dollars" example:"{cache_write_1h: 4.00}" yaml:"units"`

	Request string `yaml:"request"` // dollars per request; default: 0
	Context int64  `yaml:"context"` // context window of the model in tokens; 0: unknown
	// Above is the prompt length from which Long is the price of all tokens.
	Above int64   `yaml:"above"`
	Long  *Tariff `yaml:"long"`
}

// maxPriceAge is the age from which prices are suspected to be outdated.
const maxPriceAge = 183 * 24 * time.Hour

// Old describes the lists of prices that are outdated.
func (p *Prices) Old(now time.Time) (all []string) {
	for i := range p.Lists {
		l := &p.Lists[i]
		if day, err := time.Parse(time.DateOnly, l.AsOf); err == nil && now.Sub(day) > maxPriceAge {
			all = append(all, l.title()+" of "+l.AsOf)
		}
	}
	return all
}

// title returns the properties of the list in one line.
func (l *PriceList) title() string {
	return strings.Join(slices.DeleteFunc([]string{l.Provider, l.Cloud, l.Region, l.Tier}, func(s string) bool { return s == "" }), " ")
}

// Check checks that a ceiling is set if and only if it is used, and the patterns of targets.
func (p *Prices) Check(at *settings.At) {
	switch {
	case p.Unknown == "ceiling" && p.Ceiling == nil:
		at.Wrong("ceiling", "is required with unknown: ceiling; write one such as {input: 15, output: 75}")
	case p.Unknown != "ceiling" && p.Ceiling != nil:
		at.Wrong("ceiling", "is not used with unknown: refuse; write unknown: ceiling, or remove it")
	}
	at.EachName("models", func(pattern string) string {
		switch {
		case !strings.Contains(pattern, "/"):
			return "names no target; write provider/model, or provider/*"
		case strings.Contains(strings.TrimSuffix(pattern, "*"), "*"):
			return "has a \"*\" that is not its last character; write a name such as \"local/*\""
		}
		return ""
	})
}

// Check checks that the list has a place, a day and prices.
func (l *PriceList) Check(at *settings.At) {
	if l.title() == "" {
		at.Wrong("", "holds for no place; write provider, cloud, region or tier, or write the prices under prices.models")
	}
	if _, err := time.Parse(time.DateOnly, l.AsOf); err != nil {
		at.Wrong("as_of", "is not a day; write the day on which the prices were looked up, such as 2026-11-01")
	}
	if len(l.Models) == 0 {
		at.Wrong("models", "is required; write prices by model, such as \"anthropic.claude-*\": {input: 3, output: 15}")
	}
	at.EachName("models", func(pattern string) string {
		if strings.Contains(strings.TrimSuffix(pattern, "*"), "*") {
			return "has a \"*\" that is not its last character; write a name such as \"anthropic.claude-*\""
		}
		return ""
	})
}

// Check checks that the prices of input and output are set, and the names of units.
func (t *Tariff) Check(at *settings.At) {
	for key, price := range map[string]string{"input": t.Input, "output": t.Output} {
		if price == "" {
			at.Wrong(key, "is required; write dollars for a million tokens, 0 where it costs nothing")
		}
	}
	var known []string
	for _, u := range llm.OtherUnits() {
		known = append(known, u.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Units)) {
		if !slices.Contains(known, name) {
			at.Wrong("units", "has no unit %q; %s", name, settings.Instead(name, known))
		}
	}
}
