package alerts

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"net"
	"net/mail"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// Settings is where alerts are sent.
type Settings struct {
	// Address that alerts about budgets are sent to, https or on this machine.
	URL secret.String `key:"url" secret:"path" example:"https://hooks.example.com/${HOOK}"`
	// Secret that alerts are signed with by the rules of Standard Webhooks: 24 to 64
	// bytes in base64, with or without `whsec_` before them.
	Secret secret.String `key:"secret" example:"${ALERTS_SECRET}"`
	// Thresholds in percent of a budget. The default is 50, 80 and 100.
	Thresholds []int `key:"thresholds" example:"[50, 80, 100]"`
	// Receivers of alerts about budgets and about the gateway's state.
	To []Receiver `key:"to" maxItems:"8"`
}

// Receiver is a receiver of alerts.
type Receiver struct {
	// Kind of the receiver.
	Kind string `key:"kind" enum:"webhook,slack,email" required:"yes" example:"slack"`
	// Name in the log, different for each receiver. The default is the kind.
	Name string `key:"name" maxLength:"64" example:"on-call"`
	// What alerts are about. The default is everything.
	About []string `key:"about" enum:"budget,target,store,certificate,key,model" maxItems:"6" example:"[budget, key]"`
	// Address of a webhook or of Slack's incoming webhook, https or on this machine.
	URL secret.String `key:"url" secret:"path" example:"https://hooks.slack.com/services/${SLACK}"`
	// Secret of a webhook, as `secret` above.
	Secret secret.String `key:"secret" example:"${ALERTS_SECRET}"`
	// Mail server, as host:port.
	Server string `key:"server" example:"smtp.example.com:587"`
	// How the connection to the mail server is encrypted: starttls, implicit from its
	// begin, or none, on this machine only. The default is implicit for port 465, else
	// starttls.
	TLS string `key:"tls" enum:"starttls,implicit,none" example:"implicit"`
	// PEM file with the certificates that the mail server's is checked with. The
	// default is the system's.
	CA string `key:"ca" is:"file" example:"/etc/isogloss/mail-ca.crt"`
	// Account at the mail server, which must offer AUTH PLAIN. None by default.
	User string `key:"user" example:"isogloss@example.com"`
	// Password of the account.
	Password secret.String `key:"password" example:"${SMTP_PASSWORD}"`
	// Sender of the mails.
	From string `key:"from" example:"Isogloss <isogloss@example.com>"`
	// Recipients of the mails.
	To []string `key:"to" maxItems:"20" example:"[ops@example.com]"`
}

// Topics of alerts: their types up to the dot.
var topics = []string{"budget", "target", "store", "certificate", "key", "model"}

const maxThresholds = 10

// Check checks address, secret and thresholds, and that the names of the receivers differ.
func (s *Settings) Check(at *settings.At) {
	if at.Has("url") || at.Has("secret") || !at.Has("to") {
		checkWebhook(at, s.URL, s.Secret)
	}
	if !at.Has("thresholds") {
		s.Thresholds = []int{50, 80, 100}
	}
	if n := len(s.Thresholds); n == 0 || n > maxThresholds || slices.Min(s.Thresholds) < 1 || slices.Max(s.Thresholds) > 1000 {
		at.Wrong("thresholds", "is not a list of one to ten percentages between 1 and 1000; write one such as [50, 80, 100]")
	}
	seen := map[string]bool{}
	for i, r := range s.To {
		if name := cmp.Or(r.Name, r.Kind); seen[name] {
			at.WrongItem("to", i, "has the name %q of one before it; write another name", name)
		} else {
			seen[name] = true
		}
	}
}

// Check checks what the kind needs.
func (r *Receiver) Check(at *settings.At) {
	if !plain.IsLine(r.Name) {
		at.Wrong("name", "has characters that cannot be shown; write letters and digits")
	}
	mail := r.Kind == "email"
	for key, set := range map[string]bool{
		"url": !mail, "secret": r.Kind == "webhook", "server": mail, "tls": mail, "ca": mail, "user": mail, "password": mail, "from": mail, "to": mail,
	} {
		if r.Kind != "" && at.Has(key) && !set {
			at.Wrong(key, "has no effect on the kind %s; remove it", r.Kind)
		}
	}
	switch r.Kind {
	case "webhook":
		checkWebhook(at, r.URL, r.Secret)
	case "slack":
		checkURL(at, r.URL)
	case "email":
		r.checkMail(at)
	}
}

func (r *Receiver) checkMail(at *settings.At) {
	if r.Server == "" {
		at.Wrong("server", "is required; write the address of a mail server such as smtp.example.com:587")
	} else if host, ok := at.Address("server", r.Server); ok && host == "" {
		at.Wrong("server", "has no name of a machine; write one such as smtp.example.com:587")
	} else if ok && r.TLS == "none" && !safeurl.IsLoopback(host) {
		at.Wrong("tls", "none would send mails unencrypted over the network; write starttls or implicit")
	}
	if _, err := mail.ParseAddress(r.From); err != nil || len(r.From) > maxAddress {
		at.Wrong("from", "is no mail address; write one such as \"Isogloss <isogloss@example.com>\"")
	}
	if len(r.To) == 0 {
		at.Wrong("to", "is required; write a list of mail addresses such as [ops@example.com]")
	}
	for i, text := range r.To {
		if _, err := mail.ParseAddress(text); err != nil || len(text) > maxAddress {
			at.WrongItem("to", i, "is no mail address; write one such as ops@example.com")
		}
	}
	if (r.User == "") != (r.Password == "") {
		at.Wrong("user", "and password belong together; write both or neither")
	}
}

const maxAddress = 320

func readPool(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errNoCertificate
	}
	return pool, nil
}

func checkURL(at *settings.At, address secret.String) {
	if u, err := url.Parse(address.Reveal()); err != nil || u.Host == "" || u.User != nil || !safeurl.IsSafe(u) {
		at.Wrong("url", "is not an https URL without a user name; write one such as \"https://hooks.example.com/${HOOK}\"")
	}
}

func checkWebhook(at *settings.At, address, text secret.String) {
	checkURL(at, address)
	if key, err := decodeKey(text); err != nil || len(key) < 24 || len(key) > 64 {
		at.Wrong("secret", "is not base64 of 24 to 64 bytes; write one from \"openssl rand -base64 32\"")
	}
}

// Settle decodes the secrets, sorts the thresholds and sets the defaults of receivers.
func (s *Settings) Settle(*settings.At) {
	decode := func(to *secret.String) {
		key, _ := decodeKey(*to) // Check refuses others
		*to = secret.String(key)
	}
	decode(&s.Secret)
	slices.Sort(s.Thresholds)
	s.Thresholds = slices.Compact(s.Thresholds)
	for i := range s.To {
		r := &s.To[i]
		decode(&r.Secret)
		r.Name = cmp.Or(r.Name, r.Kind)
		if len(r.About) == 0 {
			r.About = topics
		}
		if r.Kind == "email" {
			_, port, _ := net.SplitHostPort(r.Server)
			r.TLS = cmp.Or(r.TLS, map[bool]string{true: "implicit", false: "starttls"}[port == "465"])
		}
	}
}

func decodeKey(text secret.String) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.TrimPrefix(text.Reveal(), "whsec_"))
}

// Receivers returns all receivers. The one of url has no name, and gets alerts about budgets.
func (s *Settings) Receivers() []Receiver {
	all := s.To
	if s.URL != "" {
		all = append([]Receiver{{Kind: "webhook", About: topics[:1], URL: s.URL, Secret: s.Secret}}, all...)
	}
	return all
}

// Rules returns which alerts the store writes.
func (s *Settings) Rules() store.AlertRules {
	rules := store.AlertRules{Thresholds: s.Thresholds, Receivers: map[string][]string{}}
	for _, r := range s.Receivers() {
		for _, topic := range r.About {
			if !slices.Contains(rules.Receivers[topic], r.Name) {
				rules.Receivers[topic] = append(rules.Receivers[topic], r.Name)
			}
		}
	}
	return rules
}
