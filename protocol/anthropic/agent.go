package anthropic

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// agent describes the endpoints of Claude Code.
func agent() *codec.Agent {
	return &codec.Agent{SettingsPath: "/managed/settings", UsagePath: "/api/oauth/usage", EncodeSettings: encodeSettings, EncodeSpending: encodeSpending}
}

func encodeSettings(id, checksum string, settings []byte) []byte {
	b := wire.AppendQuote([]byte(`{"uuid":`), id)
	b = wire.AppendQuote(append(b, `,"checksum":`...), checksum)
	b = append(append(b, `,"settings":`...), settings...)
	return append(b, '}')
}

// encodeSpending writes the budget of which the largest part is spent as extra_usage, and all
// budgets as limits. Amounts are in cents. Without budgets it writes what was spent.
func encodeSpending(s codec.Spending) []byte {
	active := s.Fullest()
	b := []byte(`{"extra_usage":{"is_enabled":true,"monthly_limit":`)
	if active < 0 {
		b = strconv.AppendInt(append(b, `null,"used_credits":`...), cents(s.Month), 10)
		b = append(b, `,"utilization":null,"currency":"USD"`...)
		b = strconv.AppendInt(append(b, `,"daily":{"limit":null,"used_credits":`...), cents(s.Day), 10)
		b = strconv.AppendInt(append(b, `,"utilization":null},"weekly":{"limit":null,"used_credits":`...), cents(s.Week), 10)
		return append(b, `,"utilization":null}},"limits":[]}`...)
	}
	most := &s.Budgets[active]
	b = strconv.AppendInt(b, cents(most.Limit), 10)
	b = strconv.AppendInt(append(b, `,"used_credits":`...), cents(most.Spent), 10)
	b = strconv.AppendInt(append(b, `,"utilization":`...), percent(most), 10)
	b = append(b, `,"currency":"USD"},"limits":[`...)
	for i := range s.Budgets {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLimit(b, &s.Budgets[i], i == active)
	}
	return append(b, "]}"...)
}

func appendLimit(b []byte, l *codec.Budget, active bool) []byte {
	group := "total"
	if l.Window > 0 {
		group = period(l.Window)
	}
	b = wire.AppendQuote(append(b, `{"kind":"spend","group":`...), group)
	b = strconv.AppendInt(append(b, `,"percent":`...), percent(l), 10)
	b = append(b, `,"resets_at":`...)
	if l.Reset.IsZero() {
		b = append(b, "null"...)
	} else {
		b = wire.AppendQuote(b, l.Reset.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	severity := "normal"
	switch _, threshold := standing(l); threshold {
	case "0.75":
		severity = "warning"
	case "0.95":
		severity = "critical"
	}
	b = wire.AppendQuote(append(b, `,"severity":`...), severity)
	b = strconv.AppendBool(append(b, `,"is_active":`...), active)
	return append(b, '}')
}

// cents returns an amount in billionths of a dollar as whole cents.
func cents(n int64) int64 { return n / 1e7 }

// percent returns the part of a budget that is spent, in whole percents rounded down.
func percent(b *codec.Budget) int64 { return int64(b.Used()*100 + 1e-9) }
