package alerts

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// message is an alert in the forms that receivers need. Its texts have one line each, and no control characters.
type message struct {
	id         string
	created    time.Time
	kind       string
	title      string
	lines      []string
	conditions []store.Condition
	data       any // of the JSON of a webhook
}

// maxText is how much of a name or a state is sent.
const maxText = 500

// budgetData is the data of an alert about a budget.
type budgetData struct {
	Account      string `json:"account"` // key:ID, team:ORG/TEAM or org:ORG
	Name         string `json:"name"`
	Organisation string `json:"organisation"`
	Team         string `json:"team,omitempty"`
	Budget       string `json:"budget"`         // dollars per window, as an exact decimal
	Window       int64  `json:"window_seconds"` // 0: all time
	Spent        string `json:"spent"`          // dollars in the window
	Threshold    int    `json:"threshold"`      // in percent
}

// titles are what alerts of a type say of one condition, and of several.
var titles = map[string][2]string{
	TargetDegraded:     {"a target needs attention", "%d targets need attention"},
	StoreLags:          {"a store needs attention", "%d stores need attention"},
	CertificateExpires: {"a certificate expires", "%d certificates expire"},
	KeyExpires:         {"a key expires", "%d keys expire"},
	ModelEnds:          {"a model ends", "%d models end"},
}

func newMessage(a store.Alert) message {
	m := message{id: a.ID, created: a.Created, kind: cmp.Or(a.Type, store.BudgetPassed)}
	if m.kind == store.BudgetPassed {
		m.data = budgetData{
			Account: a.Account, Name: a.Name, Organisation: a.Org, Team: a.Team, Budget: a.Budget.Decimal(), Window: int64(a.Window / time.Second),
			Spent: a.Spent.Decimal(), Threshold: a.Threshold,
		}
		m.title = fmt.Sprintf("%d%% of a budget of %s are spent", a.Threshold, owner(a))
		m.lines = []string{fmt.Sprintf("$%s of $%s %s are spent by %s.", a.Spent.Decimal(), a.Budget.Decimal(), window(a.Window), owner(a))}
		return m
	}
	for _, c := range a.Detail.Conditions {
		m.conditions = append(m.conditions, store.Condition{Subject: plain.Short(c.Subject, maxText), Text: plain.Short(c.Text, maxText)})
	}
	m.data = store.AlertDetail{Node: plain.Short(a.Detail.Node, maxText), Conditions: m.conditions, More: a.Detail.More}
	n := len(m.conditions) + a.Detail.More
	switch words, known := titles[m.kind]; {
	case !known: // of a newer version
		m.title = plain.Word(m.kind)
	case n == 1:
		m.title = words[0] + ": " + plain.Short(m.conditions[0].Subject, 100)
	default:
		m.title = fmt.Sprintf(words[1], n)
	}
	for _, c := range m.conditions {
		m.lines = append(m.lines, c.Subject+": "+c.Text)
	}
	if a.Detail.More > 0 {
		m.lines = append(m.lines, fmt.Sprintf("and %d more", a.Detail.More))
	}
	m.lines = append(m.lines, "Seen by the node "+plain.Short(a.Detail.Node, maxText)+".")
	return m
}

// topic returns what the receivers choose by.
func (m message) topic() string {
	topic, _, _ := strings.Cut(m.kind, ".")
	return topic
}

// owner names the account of a budget.
func owner(a store.Alert) string {
	kind, id, _ := strings.Cut(a.Account, ":")
	kind = map[string]string{"key": "the key", "team": "the team", "org": "the organisation"}[kind]
	return plain.Short(kind+" "+cmp.Or(a.Name, id), maxText)
}

func window(d time.Duration) string {
	switch {
	case d == 0:
		return "for all time"
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("in %d days", d/(24*time.Hour))
	}
	return "in " + d.String()
}
