package config

import "github.com/isogloss-gateway/isogloss/internal/base/secret"

// storeFile is the database of keys and ledger. It may be written as its url alone.
type storeFile struct {
	at
	// `sqlite` is a file in the data folder, `sqlite:/path/to/file.db` another file.
	// Several gateways share a `postgres://` database. The default is sqlite.
	URL secret.String `key:"url" secret:"login" example:"postgres://isogloss:${PASSWORD}@db.internal/isogloss"`
	// Secrets for key digests, at least 32 characters each, oldest first. New keys
	// use the last one; existing keys keep theirs. With sqlite the gateway creates
	// one in the data folder by default. PostgreSQL requires it, because all
	// gateways need the same.
	Peppers []secret.String `key:"peppers" example:"[\"${PEPPER}\"]"`
	// How long known keys work while the store is unreachable.
	Stale duration `key:"stale" example:"1h"`
	// What to do with a request whose usage cannot be recorded because the disk or the
	// spool is full: refuse it, or serve it without a row in the ledger. By default
	// requests of keys with a budget are refused and others are served.
	DiskFull diskFullName `key:"disk_full" restart:"no" example:"refuse"`
}

// fromText lets a store be written as its address alone.
func (s *storeFile) fromText(text string) { s.URL = secret.String(text) }

// redisFile is the Redis that shares limits. It may be written as its url alone.
type redisFile struct {
	at
	// Address, `redis://`, or `rediss://` for TLS. A cluster needs one address of its
	// own; `?addr=HOST:PORT` adds further ones. With `?master_set=NAME` the addresses
	// are Sentinels.
	URL secret.String `key:"url" secret:"login" example:"redis://127.0.0.1:6379/0"`
	// PEM file with the trusted certificates. The default is the system's.
	CA string `key:"ca" example:"/etc/isogloss/redis-ca.crt"`
	// PEM file with the gateway's client certificate.
	Cert string `key:"cert" example:"/etc/isogloss/redis.crt"`
	// PEM file with its private key.
	Key string `key:"key" example:"/etc/isogloss/redis.key"`
}

// fromText lets it be written as its address alone.
func (r *redisFile) fromText(text string) { r.URL = secret.String(text) }

// alertsFile is the webhook for alerts about budgets.
type alertsFile struct {
	at
	// Address that alerts are sent to, https or on this machine.
	URL secret.String `key:"url" secret:"path" example:"https://hooks.example.com/${HOOK}"`
	// Secret that alerts are signed with by the rules of Standard Webhooks: 24 to 64
	// bytes in base64, with or without `whsec_` before them.
	Secret secret.String `key:"secret" example:"${ALERTS_SECRET}"`
	// Thresholds in percent of a budget. The default is 50, 80 and 100.
	Thresholds []int `key:"thresholds" example:"[50, 80, 100]"`
}

// tagsFile is what the ledger records of the labels that clients send.
type tagsFile struct {
	at
	// Keys of the tags that are recorded, from every source: the header Isogloss-Tags,
	// tags, labels and metadata of the request. By default all keys are recorded except
	// those of metadata, which may be private.
	Keys []string `key:"keys" example:"[team, feature]"`
	// How end users are recorded: user, safety_identifier and metadata.user_id of
	// requests. With none, the default, they are not. With hashed, the ledger has a keyed hash, which
	// is the same for all requests of a user. With plain, it has what the client sent.
	Users usersName `key:"users" example:"hashed"`
}

// pricesFile is the set of token prices.
type pricesFile struct {
	at
	// What to do with a request of a key with a budget for a model without a price:
	// refuse it, or charge the ceiling. The default is refuse.
	Unknown unknownName `key:"unknown" example:"ceiling"`
	// Price of models without a price.
	Ceiling priceFile `key:"ceiling"`
	// Prices by target, as provider/model. A name that ends in `*` matches every
	// target with that prefix.
	Models table[priceFile] `key:"models"`
	// Prices of clouds, regions and service tiers. The lists of the tier that a response
	// names come before models, and the lists without a tier after it. Of several lists
	// the one that names the provider wins, then the region, then the cloud.
	Lists []priceListFile `key:"lists"`
}

// priceListFile is a list of prices that holds for a provider, a region or a cloud.
type priceListFile struct {
	at
	// Provider for which the list holds. The default is every one.
	Provider string `key:"provider" example:"bedrock-eu"`
	// Cloud for which the list holds. The default is every one.
	Cloud cloudName `key:"cloud" example:"aws"`
	// Region or location of the cloud, as the provider has it. The default is every one.
	Region string `key:"region" example:"eu-central-1"`
	// Service tier that the response names. Tokens of provisioned throughput are paid by
	// the hour: write 0. The default is all tiers without a list.
	Tier tierName `key:"tier" example:"priority"`
	// Day on which the prices were looked up. The gateway warns if it is more than half a
	// year ago.
	AsOf string `key:"as_of" example:"2026-11-01"`
	// Prices by model of the provider. A name that ends in `*` matches every model with
	// that prefix.
	Models table[priceFile] `key:"models"`
}

// priceFile is a price in dollars per million tokens.
type priceFile struct {
	at
	// Input tokens that the prompt cache neither served nor stored.
	Input decimal `key:"input" example:"2.50"`
	// Tokens read from the provider's prompt cache. The default is the price of
	// input.
	CacheRead decimal `key:"cache_read" example:"0.25"`
	// Tokens written to the provider's prompt cache. The default is the price of
	// input.
	CacheWrite decimal `key:"cache_write" example:"3.125"`
	// Output tokens.
	Output decimal `key:"output" example:"10"`
	// Reasoning tokens. The default is the price of output.
	Reasoning decimal `key:"reasoning" example:"10"`
}

// cacheFile is the cache of responses to deterministic requests.
type cacheFile struct {
	at
	// How long a response is kept.
	TTL duration `key:"ttl" example:"10m"`
	// Memory for the cache if there is no Redis.
	Size size `key:"size" example:"1GiB"`
}

// retentionFile is how long the store keeps what it has recorded.
type retentionFile struct {
	at
	// How long requests are kept, at least a day. What the window of a budget reaches is
	// kept in any case. The default is for ever.
	Requests duration `key:"requests" example:"90d"`
	// How long the sums of requests by hour and day are kept, at least as long as
	// requests. The default is for ever.
	Hours duration `key:"hours" example:"2y"`
}

// discoverFile is where workers are found.
type discoverFile struct {
	at
	// etcd cluster in which workers register.
	Etcd etcdFile `key:"etcd"`
	// JSON file with a list of workers. The gateway reads it again when it changes.
	File string `key:"file" example:"workers.json"`
	// DNS names whose addresses are workers.
	DNS []nameFile `key:"dns"`
	// Networks in which workers may run. Others are rejected.
	Networks []string `key:"networks" example:"[10.0.0.0/8]"`
	// Models that workers may offer: names, or prefixes with "*". Others are rejected. All by
	// default.
	Models []string `key:"models" example:"[llama-*]"`
	// Credential sent to workers. None by default.
	APIKey secret.String `key:"api_key" restart:"no" example:"${WORKER_KEY}"`
	// Whether the gateway reads the queue length and the use of the KV cache from the
	// /metrics of workers that name their engine. With least-busy, workers with a queue or
	// a nearly full cache come after others.
	EngineMetrics bool `key:"engine_metrics" restart:"no" example:"false"`
}

// etcdFile is an etcd cluster.
type etcdFile struct {
	at
	// Addresses of the cluster.
	Endpoints []string `key:"endpoints" example:"[\"http://127.0.0.1:2379\"]"`
	// Prefix of its keys.
	Prefix string `key:"prefix" example:"/isogloss/"`
	// Account, if required.
	Username string `key:"username" example:"isogloss"`
	// Password of the account.
	Password secret.String `key:"password" example:"${ETCD_PASSWORD}"`
	// PEM file with the trusted certificates. The default is the system's.
	CA string `key:"ca" example:"/etc/isogloss/etcd-ca.crt"`
	// PEM file with the gateway's client certificate.
	Cert string `key:"cert" example:"/etc/isogloss/etcd.crt"`
	// PEM file with its private key.
	Key string `key:"key" example:"/etc/isogloss/etcd.key"`
}

// nameFile is a DNS name of workers.
type nameFile struct {
	at
	// DNS name. Its A and AAAA records are workers, or its SRV records if no port is
	// set.
	Name string `key:"name" example:"vllm.default.svc"`
	// Port of the workers.
	Port int `key:"port" example:"8000"`
	// Model that they serve, under the name that clients use.
	Model string `key:"model" example:"llama-3-70b"`
	// Protocol that they use.
	Protocol protocolName `key:"protocol" example:"openai-chat"`
}
