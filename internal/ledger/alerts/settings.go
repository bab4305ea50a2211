package alerts

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Settings is the webhook for alerts about budgets.
type Settings struct {
	// Address that alerts are sent to, https or on this machine.
	URL secret.String `key:"url" secret:"path" example:"https://hooks.example.com/${HOOK}"`
	// Secret that alerts are signed with by the rules of Standard Webhooks: 24 to 64
	// bytes in base64, with or without `whsec_` before them.
	Secret secret.String `key:"secret" example:"${ALERTS_SECRET}"`
	// Thresholds in percent of a budget. The default is 50, 80 and 100.
	Thresholds []int `key:"thresholds" example:"[50, 80, 100]"`
}

const maxThresholds = 10

// Check checks address, secret and thresholds.
func (s *Settings) Check(at *settings.At) {
	if u, err := url.Parse(s.URL.Reveal()); err != nil || u.Host == "" || u.User != nil || !safeurl.IsSafe(u) {
		at.Wrong("url", "is not an https URL without a user name; write one such as \"https://hooks.example.com/${HOOK}\"")
	}
	if key, err := s.key(); err != nil || len(key) < 24 || len(key) > 64 {
		at.Wrong("secret", "is not base64 of 24 to 64 bytes; write one from \"openssl rand -base64 32\"")
	}
	if !at.Has("thresholds") {
		s.Thresholds = []int{50, 80, 100}
	}
	if n := len(s.Thresholds); n == 0 || n > maxThresholds || slices.Min(s.Thresholds) < 1 || slices.Max(s.Thresholds) > 1000 {
		at.Wrong("thresholds", "is not a list of one to ten percentages between 1 and 1000; write one such as [50, 80, 100]")
	}
}

// Settle decodes the secret and sorts the thresholds.
func (s *Settings) Settle(*settings.At) {
	key, _ := s.key() // Check refuses others
	s.Secret = secret.String(key)
	slices.Sort(s.Thresholds)
	s.Thresholds = slices.Compact(s.Thresholds)
}

func (s *Settings) key() ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Secret.Reveal(), "whsec_"))
}
