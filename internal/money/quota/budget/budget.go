// Package budget has the list of budgets of a key, a team or an organisation.
package budget

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Max is the maximum number of budgets of a key, a team or an organisation.
const Max = 4

// Budget is an amount of money per time window.
type Budget struct {
	Amount usage.Money
	Window time.Duration // 0: all time
}

// Name returns "daily budget", "monthly budget" or the like, and "budget" for all time.
func (b Budget) Name() string {
	const day = 24 * time.Hour
	switch {
	case b.Window == 0:
		return "budget"
	case b.Window == time.Hour:
		return "hourly budget"
	case b.Window == day:
		return "daily budget"
	case b.Window == 7*day:
		return "weekly budget"
	case b.Window >= 28*day && b.Window <= 31*day && b.Window%day == 0:
		return "monthly budget"
	case b.Window == 365*day || b.Window == 366*day:
		return "yearly budget"
	case b.Window%day == 0:
		return "budget per " + strconv.Itoa(int(b.Window/day)) + " days"
	}
	text := b.Window.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return "budget per " + text
}

// List is a list of budgets as text, such as "5000000000/86400000000000": amount and window of each,
// separated by spaces. An empty list costs nothing to compare and to copy.
type List string

// NewList checks all budgets of an owner and returns them as a list.
func NewList(all []Budget) (List, error) {
	if len(all) > Max {
		return "", errors.New("there are more than four budgets; remove some")
	}
	texts := make([]string, len(all))
	windows := map[time.Duration]bool{}
	for i, b := range all {
		switch {
		case b.Amount <= 0 || b.Window < 0:
			return "", errors.New("a budget is not a positive amount; remove it, or write more than 0")
		case windows[b.Window]:
			return "", errors.New("two budgets have the same window; keep the smaller one")
		}
		windows[b.Window] = true
		texts[i] = strconv.FormatInt(int64(b.Amount), 10) + "/" + strconv.FormatInt(int64(b.Window), 10)
	}
	return List(strings.Join(texts, " ")), nil
}

// Budgets returns the budgets of a list.
func (l List) Budgets() (all []Budget, err error) {
	for text := range strings.FieldsSeq(string(l)) {
		amount, window, _ := strings.Cut(text, "/")
		n, wrong := strconv.ParseInt(amount, 10, 64)
		span, also := strconv.ParseInt(window, 10, 64)
		if wrong != nil || also != nil || n <= 0 || span < 0 || len(all) == Max {
			return nil, errors.New("the list of budgets is not valid")
		}
		all = append(all, Budget{usage.Money(n), time.Duration(span)})
	}
	return all, nil
}

// Account returns the id of the account that counts the n-th budget: key:ID for the first, key#2:ID
// for the second. No other account has such an id, because the kind of an owner has no number sign.
func Account(owner string, n int) string {
	if n == 1 {
		return owner
	}
	kind, id, _ := strings.Cut(owner, ":")
	return kind + "#" + strconv.Itoa(n) + ":" + id
}

// Owner returns the id of an account without the number of its budget. The ledger and the usage logs
// use this id.
func Owner(account string) string {
	kind, id, _ := strings.Cut(account, ":")
	if i := strings.IndexByte(kind, '#'); i >= 0 {
		return kind[:i] + ":" + id
	}
	return account
}
