package config

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// Alerts is the webhook for alerts about budgets. An empty URL means none.
type Alerts struct {
	URL        secret.String
	Secret     secret.String // decoded
	Thresholds []int         // in percent, ascending
}

const maxThresholds = 10

func (a *alertsFile) resolve(ps *Problems) Alerts {
	if a.node == nil || a.node.kind == null {
		return Alerts{}
	}
	if u, err := url.Parse(a.URL.Reveal()); err != nil || u.Host == "" || u.User != nil || !safeurl.IsSafe(u) {
		ps.addKey(&a.at, "url", "is not an https URL without a user name; write one such as \"https://hooks.example.com/${HOOK}\"")
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(a.Secret.Reveal(), "whsec_"))
	if err != nil || len(key) < 24 || len(key) > 64 {
		ps.addKey(&a.at, "secret", "is not base64 of 24 to 64 bytes; write one from \"openssl rand -base64 32\"")
	}
	if !a.has("thresholds") {
		a.Thresholds = []int{50, 80, 100}
	}
	list := slices.Clone(a.Thresholds)
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) == 0 || len(list) > maxThresholds || list[0] < 1 || list[len(list)-1] > 1000 {
		ps.addKey(&a.at, "thresholds", "is not a list of one to ten percentages between 1 and 1000; write one such as [50, 80, 100]")
	}
	return Alerts{URL: a.URL, Secret: secret.String(key), Thresholds: list}
}
