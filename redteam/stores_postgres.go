package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// exec runs statements as the attacker.
func (r *rig) exec(ctx context.Context, statements ...string) {
	for _, s := range statements {
		if _, err := r.stores.sql.ExecContext(ctx, s); err != nil {
			testrig.NoError(fmt.Errorf("%s: %w", testrig.Clip(s, 200), err))
		}
	}
}

const nextRevision = `UPDATE revision SET revision = revision + 1`

// announce changes the key beacon and waits until the gateway has seen it. Changes are read
// in order, so it has seen all that were made before.
func (r *rig) announce(ctx context.Context) {
	r.stores.dark = !r.stores.dark
	models := map[bool]string{true: "[]", false: `["*"]`}[r.stores.dark]
	r.exec(ctx, `BEGIN; `+nextRevision+fmt.Sprintf(`; UPDATE keys SET models = '%s', revision = (SELECT revision FROM revision) WHERE id = '%s'; COMMIT`, models, r.ids["beacon"]))
	testrig.NoError(testrig.Until(ctx, storeRecover, "the gateway does not read the changes", func() bool { return (r.ask(ctx, "beacon").status != 200) == r.stores.dark }))
}

// forgeKeys changes the rows of the keys of keyRows.
func (r *rig) forgeKeys(ctx context.Context) {
	r.exec(ctx, `ALTER TABLE keys DROP CONSTRAINT keys_limit_requests_check, DROP CONSTRAINT keys_limit_tokens_check, DROP CONSTRAINT keys_limit_concurrency_check,
		DROP CONSTRAINT keys_budget_check, DROP CONSTRAINT keys_budget_window_check`)
	testrig.NoError(testrig.Until(ctx, storeRecover, "the key beacon is not served", func() bool { return r.ask(ctx, "beacon").status == 200 })) // it is in memory then
	for name, row := range keyRows() {
		r.exec(ctx, `BEGIN; `+nextRevision+fmt.Sprintf(`; UPDATE keys SET %s, revision = (SELECT revision FROM revision) WHERE id = '%s'; COMMIT`, row.set, r.ids["row-"+name]))
	}
	r.announce(ctx)
}

// keyRows are changes of a key's row and what the gateway may then answer.
func keyRows() map[string]struct {
	set      string
	statuses []int
} {
	type row = struct {
		set      string
		statuses []int
	}
	no, either := []int{401, 403, 404}, []int{200, 401, 403, 404}
	const large = `repeat('x', 30000000)`
	rows := map[string]row{
		"models-json":       {`models = '["*"'`, no},
		"models-object":     {`models = '{"*":1}'`, no},
		"models-numbers":    {`models = '[1,2,3]'`, no},
		"models-null":       {`models = 'null'`, no},
		"models-empty":      {`models = ''`, no},
		"models-deep":       {`models = repeat('[', 60000)`, no},
		"models-30MB":       {`models = '["*","' || ` + large + ` || '"]'`, no},
		"models-many":       {`models = '["*"' || repeat(',""', 20000) || ']'`, either},
		"models-escape":     {`models = '["\u0000*"]'`, no},
		"endpoints-json":    {`endpoints = '"chat_completions"'`, no},
		"endpoints-30MB":    {`endpoints = '["' || ` + large + ` || '"]'`, no},
		"networks-json":     {`networks = '["everywhere"]'`, no},
		"networks-bits":     {`networks = '["127.0.0.1/99"]'`, no},
		"networks-30MB":     {`networks = '[' || ` + large + ` || ']'`, no},
		"name-30MB":         {`name = ` + large, either},
		"criticality-30MB":  {`criticality = ` + large, either},
		"criticality-other": {`criticality = 'root'`, either},
		"expires-least":     {`expires = -9223372036854775808`, no},
		"expires-negative":  {`expires = -1`, no},
		"expires-most":      {`expires = 9223372036854775807`, either},
		"revoked-most":      {`revoked = 9223372036854775807`, no},
		"revoked-least":     {`revoked = -9223372036854775808`, no},
		"digest-empty":      {`digest = ''`, no},
		"digest-zeros":      {`digest = decode(repeat('00', 32), 'hex')`, no},
		"digest-30MB":       {`digest = decode(repeat('00', 30000000), 'hex')`, no},
		"digest-longer":     {`digest = digest || '\x00'`, no},
		"pepper-other":      {`pepper = 7`, no},
		"pepper-negative":   {`pepper = -1`, no},
		"pepper-most":       {`pepper = 9223372036854775807`, no},
		"until-past":        {`until = 1`, no},
		"role-unknown":      {`role = 'root'`, no},
		"role-case":         {`role = 'OWNER'`, no},
		"role-space":        {`role = ' owner'`, no},
		"role-30MB":         {`role = ` + large, no},
		"seq-least":         {`seq = -9223372036854775808`, either},
	}
	for _, column := range []string{"limit_requests", "limit_tokens", "limit_concurrency", "budget", "budget_window"} {
		rows[column+"-negative"] = row{column + ` = -1`, no}
		rows[column+"-least"] = row{column + ` = -9223372036854775808`, no}
		rows[column+"-most"] = row{column + ` = 9223372036854775807`, []int{200, 429, 400, 402, 503}}
	}
	return rows
}

func postgresAttacks() (all []attack) {
	for name, row := range keyRows() {
		all = append(all, onStore("postgres/key/"+name, func(ctx context.Context, r *rig, e *evidence) {
			key := "row-" + name
			r.answers(ctx, e, key, row.statuses...)
			operator := r.send(ctx, request{method: "GET", path: "/api/v1/orgs", key: key, admin: true})
			e.problem(operator.status < 400, "the key is an operator's: status %d", operator.status)
		}))
	}
	for name, sum := range forgedDigests() {
		all = append(all, onStore("postgres/minted/"+name, func(ctx context.Context, r *rig, e *evidence) {
			id := fmt.Sprintf("%022d", len(name))
			text, secret := mint(id)
			r.exec(ctx, `DELETE FROM keys WHERE id = '`+id+`'`, `DROP TABLE IF EXISTS minted`, `CREATE TABLE minted AS SELECT * FROM keys WHERE id = '`+r.ids["full"]+`'`, nextRevision, `UPDATE revision SET keys = keys + 1`,
				fmt.Sprintf(`UPDATE minted SET id = '%s', seq = (SELECT keys FROM revision), revision = (SELECT revision FROM revision), role = '', digest = decode('%s', 'hex')`, id, hex.EncodeToString(sum(id, secret))),
				`INSERT INTO keys SELECT * FROM minted`)
			r.announce(ctx)
			r.keys["minted"] = text
			r.answers(ctx, e, "minted", 401)
			r.exec(ctx, `DELETE FROM keys WHERE id = '`+id+`'`)
		}))
	}
	return append(all, slowPostgres()...)
}

// forgedDigests are digests that somebody without the pepper can compute.
func forgedDigests() map[string]func(id, secret string) []byte {
	plain := func(text string) []byte { s := sha256.Sum256([]byte(text)); return s[:] }
	keyed := func(key, text string) []byte {
		m := hmac.New(sha256.New, []byte(key))
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	return map[string]func(id, secret string) []byte{
		"secret":    func(_, s string) []byte { return plain(s) },
		"id-secret": func(id, s string) []byte { return plain(id + s) },
		"empty-key": func(id, s string) []byte { return keyed("", id+s) },
		"id-as-key": func(id, s string) []byte { return keyed(id, s) },
		"zeros-as-key": func(id, s string) []byte {
			return keyed(strings.Repeat("\x00", 32), id+s)
		},
	}
}

// mint returns a key in the gateway's form, with a secret of the attacker's choice.
func mint(id string) (text, secret string) {
	const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	secret = strings.Repeat("s", 43)
	text = "gw_live_" + id + "_" + secret
	sum, tail := crc32.ChecksumIEEE([]byte(text)), make([]byte, 6)
	for i := len(tail) - 1; i >= 0; i-- {
		tail[i] = base62[sum%62]
		sum /= 62
	}
	return text + string(tail), secret
}

// stranger is a valid key that the gateway has not seen, so that it has to ask the store.
func (r *rig) stranger(ctx context.Context, e *evidence, statuses ...int) {
	r.keys["stranger"], _ = mint(fmt.Sprintf("%022d", time.Now().UnixNano()))
	r.answers(ctx, e, "stranger", statuses...)
}

// slowPostgres are a PostgreSQL that does not answer, one that has too much, and a server
// in its place.
func slowPostgres() (all []attack) {
	all = append(all,
		onStore("postgres/locked", func(ctx context.Context, r *rig, e *evidence) {
			tx := testrig.Must(r.stores.sql.BeginTx(ctx, nil))
			defer func() { _ = tx.Rollback() }()
			_, err := tx.ExecContext(ctx, `LOCK TABLE keys, orgs, revision, owners IN ACCESS EXCLUSIVE MODE`)
			testrig.NoError(err)
			r.answers(ctx, e, "full", 200)
			r.stranger(ctx, e, 401, 503)
		}),
		onStore("postgres/sleeping-view", func(ctx context.Context, r *rig, e *evidence) {
			r.exec(ctx, `ALTER TABLE keys RENAME TO keys_real`, `CREATE VIEW keys AS SELECT k.* FROM keys_real k, (SELECT pg_sleep(30)) s`)
			defer r.exec(ctx, `DROP VIEW keys`, `ALTER TABLE keys_real RENAME TO keys`)
			r.answers(ctx, e, "full", 200)
			r.stranger(ctx, e, 401, 503)
		}),
		onStore("postgres/sleeping-trigger", func(ctx context.Context, r *rig, e *evidence) {
			r.exec(ctx, `CREATE FUNCTION slow() RETURNS trigger AS 'BEGIN PERFORM pg_sleep(30); RETURN NEW; END' LANGUAGE plpgsql`, `CREATE TRIGGER slow BEFORE INSERT ON requests FOR EACH ROW EXECUTE FUNCTION slow()`)
			defer r.exec(ctx, `DROP TRIGGER slow ON requests`, `DROP FUNCTION slow`)
			for range 5 {
				r.answers(ctx, e, "full", 200)
			}
		}),
		onStore("postgres/frozen", func(ctx context.Context, r *rig, e *evidence) {
			r.stores.postgres.Freeze()
			defer r.stores.postgres.Thaw()
			r.answers(ctx, e, "full", 200)
			r.stranger(ctx, e, 401, 503)
		}),
		onStore("postgres/110000-keys", func(ctx context.Context, r *rig, e *evidence) {
			r.stores.allowed = 512 << 20 // 256 MiB of keys, which the collector lets double
			r.exec(ctx, `CREATE TABLE many AS SELECT k.* FROM keys k WHERE false`, `INSERT INTO many SELECT k.* FROM keys k, generate_series(1, 110000) WHERE k.id = '`+r.ids["full"]+`'`,
				`CREATE SEQUENCE n`, `UPDATE many SET id = 'forged' || nextval('n'), models = '["' || repeat('m', 300) || '"]'`,
				`BEGIN; UPDATE revision SET revision = revision + 110000, keys = 1300000; UPDATE many SET seq = 1000000 + substr(id, 7)::bigint, revision = (SELECT revision FROM revision) - 110000 + substr(id, 7)::bigint; INSERT INTO keys SELECT * FROM many; COMMIT`)
			defer r.exec(ctx, `DELETE FROM keys WHERE id LIKE 'forged%'`, `DROP TABLE many`, `DROP SEQUENCE n`)
			r.announce(ctx)
			r.answers(ctx, e, "full", 200)
			r.answers(ctx, e, "payer", 200)
		}),
		onStore("postgres/negative-sums", func(ctx context.Context, r *rig, e *evidence) {
			made := r.admin(ctx, "POST", "/api/v1/keys", `{"name":"debtor","org":"a","models":["*"],"limits":{"budget":"0.000001","window_seconds":0}}`)
			r.keys["debtor"] = made.Str("text")
			r.exec(ctx, `ALTER TABLE spent DROP CONSTRAINT IF EXISTS spent_cost_check`, fmt.Sprintf(`INSERT INTO spent (account, hour, requests, unknown, cost) VALUES ('key:%s', 500000, 1, 0, -1000000000000000)`, made.Obj("key").Str("id")))
			r.answers(ctx, e, "debtor", 402, 429)
		}),
	)
	for name, say := range map[string]func(net.Conn){
		"announces-2GB": func(c net.Conn) { _, _ = c.Write([]byte{'D', 0x7f, 0xff, 0xff, 0xff}) },
		"negative":      func(c net.Conn) { _, _ = c.Write([]byte{'D', 0xff, 0xff, 0xff, 0xff}) },
		"notices":       func(c net.Conn) { repeat(c, pgMessage('N', "SNOTICE\x00M"+strings.Repeat("x", 60_000)+"\x00\x00")) },
		"rows":          func(c net.Conn) { repeat(c, pgMessage('D', "\x00\x01\x00\x00\xea\x60"+strings.Repeat("x", 60_000))) },
		"columns":       func(c net.Conn) { repeat(c, pgMessage('T', "\x7f\xff"+strings.Repeat("x", 1000))) },
		"long-error": func(c net.Conn) {
			_, _ = c.Write(pgMessage('E', "SFATAL\x00C57P01\x00M"+strings.Repeat("x", 7_000_000)+"\x00\x00"))
		},
		"http":    func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")) },
		"silence": func(net.Conn) {},
		"drip": func(c net.Conn) {
			for _, b := range pgMessage('N', strings.Repeat("x", 10_000)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		},
	} {
		all = append(all, onStore("postgres/server/"+name, func(ctx context.Context, r *rig, e *evidence) {
			r.stores.toPostgres.use(func(c net.Conn) {
				buf := make([]byte, 64<<10)
				_, _ = c.Read(buf) // the start
				_, _ = c.Write(append(pgMessage('R', "\x00\x00\x00\x00"), pgMessage('Z', "I")...))
				for _, err := c.Read(buf); err == nil; _, err = c.Read(buf) {
					say(c)
				}
			})
			defer r.stores.toPostgres.use(nil)
			r.answers(ctx, e, "full", 200)
			r.stranger(ctx, e, 401, 503)
			testrig.Pause(ctx, time.Second) // the feed meets it too
			r.answers(ctx, e, "full", 200)
		}))
	}
	return all
}

func pgMessage(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...)
}

// repeat writes until the connection is closed.
func repeat(c net.Conn, text []byte) {
	for {
		if _, err := c.Write(text); err != nil {
			return
		}
	}
}
