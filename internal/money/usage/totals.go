package usage

import "strings"

// Account identifies an account without building its name.
type Account struct {
	Kind    AccountKind
	Org, ID string // Org is empty for a key
}

// AccountKind is the kind of an account. Zero means that there is none.
type AccountKind byte

// The kinds.
const (
	KeyAccount AccountKind = iota + 1
	TeamAccount
	OrgAccount
)

// Name returns key:ID, team:ORG/TEAM or org:ORG.
func (a Account) Name() string {
	switch a.Kind {
	case KeyAccount:
		return "key:" + a.ID
	case TeamAccount:
		return "team:" + a.Org + "/" + a.ID
	default:
		return "org:" + a.Org
	}
}

// AccountOf returns the account with a name.
func AccountOf(name string) Account {
	kind, id, _ := strings.Cut(name, ":")
	switch kind {
	case "key":
		return Account{KeyAccount, "", id}
	case "team":
		org, team, _ := strings.Cut(id, "/")
		return Account{TeamAccount, org, team}
	default:
		return Account{OrgAccount, id, ""}
	}
}

// AccountsOf returns the accounts of a request: key, team and organisation.
func AccountsOf(key, team, org string) (all [3]Account) {
	if key != "" {
		all[0] = Account{KeyAccount, "", key}
	}
	if team != "" {
		all[1] = Account{TeamAccount, org, team}
	}
	if org != "" {
		all[2] = Account{OrgAccount, org, ""}
	}
	return all
}

// Accounts returns the names of the accounts that the row is charged to.
func (r *Row) Accounts() (names []string) {
	for _, a := range AccountsOf(r.Key, r.Team, r.Org) {
		if a.Kind != 0 {
			names = append(names, a.Name())
		}
	}
	return names
}

// Charged returns what the row's accounts pay.
func (r *Row) Charged() Money {
	if r.Cost == nil {
		return 0
	}
	return max(*r.Cost, 0)
}

// Totals is what the key, the team and the organisation of a request have spent in one log,
// from its beginning up to and including the request. A total only grows, so a counter can
// apply it any number of times and in any order.
type Totals struct{ Key, Team, Org Money }

// Of returns the total of an account. Only the kind counts, which may have the number of a budget.
func (t Totals) Of(account string) Money {
	switch {
	case strings.HasPrefix(account, "key"):
		return t.Key
	case strings.HasPrefix(account, "team"):
		return t.Team
	default:
		return t.Org
	}
}

// Total is what an account has spent in one log.
type Total struct {
	Log     string
	Org     string
	Account string
	Spent   Money
}

// Batch is a part of a log.
type Batch struct {
	Log   string
	After int64 // position up to which the store has acknowledged the log
	To    int64 // position of the last row, or After
	Rows  []Row
	// Positions are those of the rows. Some may be missing in between: rows that could not be read.
	Positions []int64
}

// Positions says how much of a log the store has.
type Positions struct {
	Direct     int64 // position up to which the rows were stored without a log of events
	Partitions []PartitionPosition
}

// PartitionPosition says how much of a log the consumers of a partition have stored.
type PartitionPosition struct {
	Partition int
	Position  int64
	// Gap is not 0 if events after Position are missing in the partition. It grows while it is noticed.
	Gap int64
}
