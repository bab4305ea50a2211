package store

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/partition"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// TestLargeLedger asks every question of the admin API about ISOGLOSS_LARGE_LEDGER_ROWS requests that PostgreSQL has
// made itself: the rows, in partitions of a week, their labels, and all sums. ISOGLOSS_LEDGER_STORE names a store that
// is filled already, or is to be kept.
func TestLargeLedger(t *testing.T) {
	total, _ := strconv.Atoi(os.Getenv("ISOGLOSS_LARGE_LEDGER_ROWS"))
	if total == 0 {
		t.Skip("set ISOGLOSS_LARGE_LEDGER_ROWS, such as 10000000; it takes half an hour and 10 GB")
	}
	url := os.Getenv("ISOGLOSS_LEDGER_STORE")
	if url == "" {
		url = database(t)
	}
	s := opened(t, url, Options{Migrate: true, Timeout: time.Hour})
	have := 0
	no(t, s.db.Read(bg(), func(ctx context.Context, c db.Conn) error { return c.Row(ctx, "SELECT count(*) FROM requests")(&have) }))
	if have < total {
		makeLedger(t, s, total)
	}
	s = opened(t, url, Options{Timeout: 10 * time.Second})
	sums, err := s.Usage(bg(), UsageQuery{From: ledgerStart.Add(-time.Hour)})
	if err != nil || len(sums) != 1 || sums[0].Requests != int64(total) {
		t.Fatalf("%+v, %v", sums, err)
	}
	askAll(t, s, time.Second, 7*time.Hour)
}

// makeLedger makes rows as ledgerRow does, and an end user in a quarter of them, one day after the other.
func makeLedger(t *testing.T, s *Store, total int) {
	run := func(name, query string) {
		start := time.Now()
		no(t, s.db.Write(bg(), func(ctx context.Context, c db.Conn) error {
			if err := c.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
				return err
			}
			if err := c.Exec(ctx, `SET LOCAL work_mem = '256MB'`); err != nil {
				return err
			}
			return c.Exec(ctx, query)
		}))
		t.Logf("%s: %v", name, time.Since(start).Round(time.Second))
	}
	run("the empty partitions", `DROP TABLE requests_first, labels_first`)
	for day := 0; day < 30; day += 7 {
		from := ledgerStart.AddDate(0, 0, day)
		no(t, s.db.Write(bg(), func(ctx context.Context, c db.Conn) error {
			return partition.Add(ctx, c, partition.Range{From: from.UnixNano(), To: from.AddDate(0, 0, 7).UnixNano()})
		}))
	}
	counts := strings.Split("requests, unknown, estimated, input, cache_read, cache_write, output, reasoning, cost, errors, refused, token_1, token_2, token_3, token_4, token_5, token_6, token_7, token_8", ", ")
	for day := range 30 {
		run("day "+strconv.Itoa(day), fmt.Sprintf(madeRows, ledgerStart.UnixNano(), int64(ledgerTime), total, (total*day+29)/30, (total*(day+1)+29)/30-1, strings.Join(counts, ", "), madeCounts()))
	}
	added := "sum(" + strings.Join(counts, "), sum(") + ")"
	for _, table := range [][3]string{{"model_hours", "hour, org, model, target", "hours"}, {"days", "day, org, team, key_id, model, target", "hours"}, {"key_days", "day, org, team, key_id", "days"}, {"model_days", "day, org, model, target", "days"},
		{"value_model_days", "day, org, label, value, model, target", "label_hours"}, {"value_days", "day, org, label, value", "value_model_days"}} {
		by, most := table[1], ""
		if strings.HasSuffix(table[2], "hours") {
			by = strings.Replace(by, "day", "hour / 24", 1)
		}
		names := table[1] + ", " + strings.Join(counts, ", ")
		if table[0] == "model_hours" {
			names, most = names+", longest, dearest", ", 0, 0"
		}
		run(table[0], `INSERT INTO `+table[0]+` (`+names+`) SELECT `+by+`, `+added+most+` FROM `+table[2]+` GROUP BY `+by)
	}
	run("the longest and dearest", `UPDATE model_hours m SET longest = l, dearest = d FROM (SELECT began / 3600000000000 AS h, org AS o, model AS mo, target AS ta, max(took) AS l, max(cost) AS d FROM requests GROUP BY 1, 2, 3, 4) r
		WHERE m.hour = h AND m.org = o AND m.model = mo AND m.target = ta`)
	run("sums of accounts", `INSERT INTO spent (account, hour, requests, unknown, cost)
		SELECT 'key:' || key_id, hour, sum(requests), sum(unknown), sum(cost) FROM hours GROUP BY 1, 2 UNION ALL
		SELECT 'team:' || org || '/' || team, hour, sum(requests), sum(unknown), sum(cost) FROM hours GROUP BY 1, 2 UNION ALL
		SELECT 'org:' || org, hour, sum(requests), sum(unknown), sum(cost) FROM hours GROUP BY 1, 2`)
	run("sums by minute", `INSERT INTO spent_minutes (account, minute, cost) SELECT 'org:' || org, began / 60000000000, sum(cost) FROM requests GROUP BY 1, 2 UNION ALL
		SELECT 'team:' || org || '/' || team, began / 60000000000, sum(cost) FROM requests GROUP BY 1, 2`)
	run("statistics", `ANALYZE`)
}

// madeCounts are the sums of rows.
func madeCounts() string {
	list := `count(*), 0, 0, sum(input), sum(cache_read), 0, sum(output), 0, sum(cost), count(*) FILTER (WHERE outcome IN ('failed', 'lost')), 0`
	low := time.Duration(0)
	for _, bound := range append(usage.HistogramBounds(), 1<<62) {
		list += fmt.Sprintf(", count(*) FILTER (WHERE token > %d AND token <= %d)", int64(low), int64(bound))
		low = bound
	}
	return list
}

// madeRows makes the rows from a number to another, their labels, and their sums by hour.
const madeRows = `WITH numbers AS (
	SELECT i, %[1]d + (%[2]d::float8 * i / %[3]d)::bigint AS began, i %% (%[3]d / 3) = %[3]d / 6 AS rare, hashint8extended(i, 1) & x'7fffffffffffffff'::bigint AS a, hashint8extended(i, 2) & x'7fffffffffffffff'::bigint AS b,
		hashint8extended(i, 3) & x'7fffffffffffffff'::bigint AS c, hashint8extended(i, 4) & x'7fffffffffffffff'::bigint AS d FROM generate_series(%[4]d::bigint, %[5]d) AS i
), made AS MATERIALIZED (
	SELECT i, began, gen_random_uuid()::text AS id, CASE WHEN rare THEN 3600000000000 ELSE (-ln((c %% 1000000 + 1) / 1000001.0::float8) * 3e9)::bigint END AS took, d %% 9000 AS input, d / 9000 %% 9000 AS cache_read, d / 81000000 %% 900 AS output,
		CASE WHEN rare THEN 999000000000 WHEN failed THEN 0 ELSE d %% 9000 * 250 + d / 81000000 %% 900 * 1000 END AS cost, CASE WHEN rare THEN 418 WHEN failed THEN 502 ELSE 200 END AS status,
		CASE WHEN rare THEN 'person_rare' WHEN key < 20 THEN 'person_' || lpad(key::text, 22, '0') ELSE '0123456789abcdefghi' || lpad(key::text, 3, '0') END AS key_id,
		CASE WHEN rare THEN 'rare@example.org' WHEN key < 20 THEN 'person-' || lpad(key::text, 2, '0') || '@example.org' ELSE '' END AS person,
		CASE WHEN rare THEN 'rare' ELSE 'team-' || key %% 20 / 2 END AS team, CASE WHEN rare THEN 'rare' ELSE 'org-' || key %% 2 END AS org, CASE WHEN rare THEN 'rare' ELSE 'model-' || b %% 8 END AS model,
		CASE WHEN rare THEN 'rare/rare' ELSE 'provider-' || b / 8 %% 10 / 9 || '/model-' || b %% 8 END AS target, CASE WHEN rare THEN 'lost' WHEN failed THEN 'failed' WHEN c / 1000000 %% 100 = 1 THEN 'left' ELSE 'answered' END AS outcome,
		CASE WHEN rare THEN 'dropped' WHEN c / 100000000 %% 25 = 0 THEN 'approximated' ELSE 'exact' END AS fidelity, CASE WHEN failed THEN 0 ELSE (-ln((c %% 1000000 + 1) / 1000001.0::float8) * 3e8)::bigint END AS token,
		CASE WHEN rare THEN 'rare' WHEN i %% 10 = 0 THEN 'f' || b / 80 %% 50 END AS tag, CASE WHEN rare THEN 'rare' WHEN i %% 4 = 1 THEN 'user-' || key || '-' || b / 4000 %% 5 END AS end_user
	FROM (SELECT *, least(a %% 200, a / 1000 %% 200) AS key, c / 1000000 %% 100 = 0 AS failed FROM numbers) n
), wanted AS MATERIALIZED (
	SELECT 'tag:feature' AS label, tag AS value, m.* FROM made m WHERE tag IS NOT NULL UNION ALL SELECT 'user', end_user, m.* FROM made m WHERE end_user IS NOT NULL
), rows AS (
	INSERT INTO requests (began, id, took, input, cache_read, cache_write, output, reasoning, cost, status, stream, estimated, node, key_id, person, team, org, endpoint, dialect, model, target, outcome, fidelity, detail)
	SELECT began, id, took, input, cache_read, 0, output, 0, cost, status, true, false, 'gw-' || i %% 3, key_id, person, team, org, 'chat_completions', 'openai-chat', model, target, outcome, fidelity,
		'{"q":80000,"b":' || took / 20 || ',"t":' || token || ',"ua":"OpenAI/Python 2.8.1"' || coalesce(',"u":"' || end_user || '"', '') || coalesce(',"tags":[["feature","' || tag || '"]]', '') ||
		',"a":[{"to":"' || target || '","at":80000,"d":' || took || ',"s":200,"n":[' || input || ',' || cache_read || ',0,' || output || '],"$":' || cost || ',"c":true,"b":' || took / 20 || ',"t":' || token || ',"r":[250000000,25000000,250000000,1000000000,1000000000]}]}'
	FROM made
), labelled AS (
	INSERT INTO labels (label, value, began, request_id) SELECT label, value, began, id FROM wanted
), values AS (
	INSERT INTO label_values (org, day, label, value) SELECT DISTINCT org, began / 86400000000000, label, value FROM wanted UNION SELECT DISTINCT org, began / 86400000000000, label, '' FROM wanted
), sums AS (
	INSERT INTO label_hours (org, hour, label, value, team, key_id, model, target, %[6]s) SELECT org, began / 3600000000000, label, value, team, key_id, model, target, %[7]s FROM wanted GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
) INSERT INTO hours (hour, org, team, key_id, model, target, %[6]s) SELECT began / 3600000000000, org, team, key_id, model, target, %[7]s FROM made GROUP BY 1, 2, 3, 4, 5, 6`
