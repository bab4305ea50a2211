package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/isogloss-gateway/isogloss/internal/app/usagesetup"
	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
)

// Latencies from which a store is slow. A request with limits waits 50 ms for Redis at most.
const (
	slowRedis = 20 * time.Millisecond
	slowStore = 100 * time.Millisecond
)

// checkStore looks at the database of keys and the ledger.
func (in *Installation) checkStore(ctx context.Context) (list []Result) {
	if in.Config == nil || in.Config.Store.URL == "" {
		return nil
	}
	address := in.Config.Store.URL.Reveal()
	if unset(address) {
		return unsetResult("store.url")
	}
	f, err := store.Examine(ctx, address)
	if err != nil {
		return []Result{storeError(in.Config.Store.SQLite(), address, err)}
	}
	text := storeText(address, f)
	if f.Version != "" {
		in.compareClock("PostgreSQL", f.Clock)
	}
	switch {
	case f.Missing:
		return one(Note, "", "%s does not exist yet; the first start creates it", strings.TrimPrefix(address, "sqlite:"))
	case f.Pooler == db.StatementPooler:
		return one(Failure, "write pool_mode = transaction for this database in pgbouncer.ini, and reload PgBouncer", "%s: PgBouncer is in statement mode, which allows no transactions", text)
	case f.Standby:
		list = append(list, result(Failure, "write the address of the primary in store.url, or several hosts with target_session_attrs=read-write", "%s: the server is a standby, which accepts no writes", text))
	case f.Latency > slowStore:
		list = append(list, result(Warning, "move the database nearer, or look at its load", "%s: that is slow", text))
	default:
		list = append(list, result(OK, "", "%s", text))
	}
	return append(list, schemaResult(f))
}

func storeText(address string, f db.Facts) string {
	if f.Version == "" {
		return strings.TrimPrefix(address, "sqlite:") + " (SQLite)"
	}
	text := fmt.Sprintf("PostgreSQL %s at %s, a query took %s", f.Version, hostOf(address), took(f.Latency))
	if f.Pooler != db.NoPooler {
		text += fmt.Sprintf(", behind a pooler in %s mode", f.Pooler)
	}
	return text
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "its address"
	}
	return u.Host
}

// schemaResult says whether this program can use the tables.
func schemaResult(f db.Facts) Result {
	var r Result
	switch {
	case f.Have == 0:
		r = result(Note, "", "there are no tables yet; the first start creates them")
	case f.Have < f.First:
		r = result(Failure, "start the older program that docs/operations/upgrade.md names once, which migrates them", "the tables have version %d; this program migrates from version %d on", f.Have, f.First)
	case f.Have < f.Need:
		r = result(Warning, "start a gateway of this version, which migrates them; read docs/operations/upgrade.md first", "the tables have the older version %d; this program has %d", f.Have, f.Need)
	case f.Have > f.Need:
		r = result(Warning, "install the version of the other gateways here too", "the tables have the newer version %d; this program has %d: a newer gateway uses the store", f.Have, f.Need)
	default:
		r = result(OK, "", "version %d, which this program needs", f.Have)
	}
	r.Of = "tables"
	return r
}

// storeError says why the store cannot be read.
func storeError(sqlite bool, address string, err error) Result {
	if sqlite {
		_, remedy := cause(err, "store.url", "")
		if strings.Contains(err.Error(), "not a database") || strings.Contains(err.Error(), "malformed") {
			remedy = "restore it from its backup: docs/operations/backup.md"
		}
		return result(Failure, remedy, "%s: %v", strings.TrimPrefix(address, "sqlite:"), err)
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		remedies := map[string]string{
			"28P01": "correct the password in store.url or in its passfile",
			"28000": "correct the user in store.url, or allow it in pg_hba.conf",
			"3D000": "create the database, or correct its name in store.url",
			"53300": "raise max_connections, or put PgBouncer before PostgreSQL",
			"42501": "grant the account the rights that docs/operations/upgrade.md lists",
			"57P03": "wait until PostgreSQL has started",
		}
		remedy := remedies[refused.Code]
		if remedy == "" {
			remedy = "look at the log of PostgreSQL, and at store.url"
		}
		return result(Failure, remedy, "PostgreSQL at %s refuses: %s (SQLSTATE %s)", hostOf(address), refused.Message, refused.Code)
	}
	text, remedy := cause(err, "store.url", "")
	return result(Failure, remedy, "PostgreSQL at %s: %s", hostOf(address), text)
}

// checkRedis looks at the Redis of limits and the cache.
func (in *Installation) checkRedis(ctx context.Context) (list []Result) {
	if in.Redis.URL == "" {
		return nil
	}
	if unset(in.Redis.URL) {
		return unsetResult("redis.url")
	}
	all, err := redis.Examine(ctx, in.Redis)
	for _, f := range all {
		in.compareClock("Redis "+f.Addr, f.Clock)
		for _, r := range redisResults(f) {
			r.Of = f.Addr
			list = append(list, r)
		}
	}
	if err == nil {
		return list
	}
	text, remedy := cause(err, "redis.url", "")
	switch said := err.Error(); {
	case strings.Contains(said, "WRONGPASS"), strings.Contains(said, "NOAUTH"), strings.Contains(said, "invalid password"):
		text, remedy = "it refuses the password", "correct user and password in redis.url"
	case strings.Contains(said, "NOPERM"):
		text, remedy = "the account lacks a right: "+said, "grant it; docs/operations/redis.md has the list"
	case strings.Contains(said, "LOADING"):
		text, remedy = "it loads its data", "wait until it has started"
	}
	return append(list, result(Failure, remedy, "%s: %s; until it is back each gateway enforces its share of the limits", hostOf(in.Redis.URL), text))
}

func redisResults(f redis.Facts) (list []Result) {
	text := fmt.Sprintf("Redis %s, a call took %s, %s in use", f.Version, took(f.Latency), bytesText(f.Memory))
	if f.MaxMemory > 0 {
		text += " of " + bytesText(f.MaxMemory)
	}
	switch {
	case f.Evicts != "":
		list = append(list, result(Warning, "set maxmemory-policy noeviction", "%s; its policy %s deletes counters when the memory is full, so each gateway enforces only its share of the limits", text, f.Evicts))
	case f.MaxMemory > 0 && f.Memory > f.MaxMemory/10*9:
		list = append(list, result(Warning, "raise maxmemory, or use another Redis for other programs", "%s: it is nearly full, and then refuses writes", text))
	case f.Latency > slowRedis:
		list = append(list, result(Warning, "move it nearer, or look at its load; a request waits 50 ms for it at most", "%s: that is slow", text))
	default:
		list = append(list, result(OK, "", "%s, it evicts nothing", text))
	}
	switch f.Disk {
	case redis.DiskFailing:
		list = append(list, result(Failure, "look at its log and its disk; it may refuse writes meanwhile", "its last write to disk has failed"))
	case redis.DiskNone:
		list = append(list, result(Note, "set appendonly yes if an Idempotency-Key must be remembered after a restart of Redis", "it writes nothing to disk; limits and budgets are restored from the ledger"))
	}
	return list
}

// checkEtcd looks at the cluster in which workers register.
func (in *Installation) checkEtcd(ctx context.Context) []Result {
	if in.Config == nil || len(in.Config.Discover.Etcd.Endpoints) == 0 {
		return nil
	}
	o := in.Config.Discover.Etcd
	if unset(append(o.Endpoints, o.Password.Reveal())...) {
		return unsetResult("discover.etcd")
	}
	f, err := discover.ExamineEtcd(ctx, o)
	text := fmt.Sprintf("etcd %s, %d of %d members reached", f.Version, f.Reached, f.Members)
	const lasts = "; the workers that are known stay"
	switch {
	case errors.Is(err, discover.ErrNoQuorum):
		return one(Failure, "start the other members; more than half of them must run", "%s, which is no majority, so it serves nothing%s", text, lasts)
	case err != nil && f.Reached > 0:
		return one(Failure, "look at the log of etcd, and at user and password in discover.etcd", "%s: a read fails: %v%s", text, err, lasts)
	case err != nil:
		what, remedy := cause(err, "discover.etcd.endpoints", "")
		return one(Failure, remedy, "etcd: %s%s", what, lasts)
	case f.Reached < f.Members:
		return one(Warning, "start the member that does not answer", "%s; a read took %s", text, took(f.Latency))
	}
	return one(OK, "", "%s, a read took %s, %s registered", text, took(f.Latency), count(int(f.Workers), "worker"))
}

// checkUsageLog looks at Kafka or NATS.
func (in *Installation) checkUsageLog(ctx context.Context) []Result {
	if in.Config == nil || in.Config.Usage.Sink == nil {
		return nil
	}
	s := in.Config.Usage.Sink
	name, setting := "NATS", "usage.sink.nats.servers"
	var secrets []string
	if s.Kafka != nil {
		name, setting = "Kafka", "usage.sink.kafka.brokers"
		secrets = append(secrets, s.Kafka.Password.Reveal())
	} else {
		secrets = append(secrets, s.NATS.Password.Reveal())
	}
	if unset(secrets...) {
		return unsetResult("usage.sink")
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	f, err := usagesetup.Examine(ctx, s)
	if err != nil {
		text, remedy := logError(err, setting)
		return one(Failure, remedy, "%s: %s; usage events wait in the spool", name, text)
	}
	return logResults(name, s.Partitions(), f)
}

// logError says why the servers of the log cannot be used, and what to do. The setting has their addresses.
func logError(err error, setting string) (text, remedy string) {
	section := setting[:strings.LastIndexByte(setting, '.')]
	for known, remedy := range map[error]string{
		usagelog.ErrAway:      "start them, or correct " + setting,
		usagelog.ErrAccount:   "correct " + section + ".username and password, or create the account",
		usagelog.ErrNoAccount: "write " + section + ".username and password",
		usagelog.ErrPlain:     "write tls: true in " + section + ", and ca if a CA of your own has signed its certificate",
		usagelog.ErrJetStream: "start the server with -js, or write jetstream {} in its configuration",
	} {
		if errors.Is(err, known) {
			return known.Error(), remedy
		}
	}
	return cause(err, setting, "")
}

func logResults(name string, partitions int, f usagelog.Facts) []Result {
	text := fmt.Sprintf("%s: %s, a request took %s", name, count(f.Servers, "server"), took(f.Latency))
	switch {
	case f.Missing:
		return one(Note, "", "%s; the log does not exist yet: the first start creates it", text)
	case f.Partitions > 0 && f.Partitions != partitions:
		return one(Failure, fmt.Sprintf("write partitions: %d in usage.sink, or create the topic again", f.Partitions), "%s; the topic has %d partitions, and the configuration says %d", text, f.Partitions, partitions)
	case len(f.Weaknesses) > 0:
		return one(Warning, "docs/operations/usage-log.md has the settings of the topic", "%s; the brokers may lose events that they have acknowledged: %s", text, strings.Join(f.Weaknesses, ", "))
	}
	return one(OK, "", "%s, %d replicas", text, f.Replicas)
}

// checkClickHouse looks at the server of the requests.
func (in *Installation) checkClickHouse(ctx context.Context) []Result {
	if in.Config == nil || in.Config.Usage.ClickHouse == nil {
		return nil
	}
	h := in.Config.Usage.ClickHouse
	if unset(h.URL, h.Password.Reveal()) {
		return unsetResult("usage.clickhouse")
	}
	d, err := usagesetup.ClickHouse(h)
	if err != nil {
		return one(Failure, "correct usage.clickhouse", "%v", err)
	}
	defer d.Close()
	begun := time.Now()
	version, err := d.Version(ctx)
	if err != nil {
		text, remedy := cause(err, "usage.clickhouse", "")
		switch {
		case strings.Contains(text, "Code: 516"), strings.Contains(text, "Code: 192"), strings.Contains(text, "Code: 193"), strings.Contains(text, "Code: 194"):
			text, remedy = "the server refuses the user or the password", "correct usage.clickhouse.username and password, or create the account"
		case strings.Contains(text, "Code: 81"):
			remedy = "create the database, or correct usage.clickhouse.database"
		}
		return one(Failure, remedy, "ClickHouse: %s", text)
	}
	return one(OK, "", "ClickHouse %s, a query took %s", version, took(time.Since(begun)))
}

// checkIdentity fetches the keys of each identity provider.
func (in *Installation) checkIdentity(ctx context.Context) (list []Result) {
	if in.Verifier == nil || in.Config == nil {
		return nil
	}
	for _, i := range in.Config.Identity {
		f, err := in.Verifier.Examine(ctx, i.URL)
		r := result(OK, "", "%s for tokens, fetched in %s", count(f.Keys, "key"), took(f.Latency))
		if err != nil {
			text, remedy := cause(err, "identity.issuers", "")
			r = result(Failure, remedy+"; without keys nobody can sign in there", "its keys cannot be fetched: %s", text)
		}
		r.Of = i.URL
		list = append(list, r)
	}
	return list
}
