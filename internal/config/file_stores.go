package config

import "github.com/isogloss-gateway/isogloss/internal/secret"

// storeFile is where keys and the ledger are. It may be written as its url alone.
type storeFile struct {
	at
	// `sqlite` is a file in the data folder, `sqlite:/path/to/file.db` another one;
	// several gateways share a `postgres://` address. The default is sqlite.
	URL secret.String `key:"url" example:"postgres://isogloss:${PASSWORD}@db.internal/isogloss"`
	// Secrets that keys are hashed with, at least 32 characters each, oldest first:
	// the last is used for new keys, the others for those that were made with them.
	// With sqlite the default is one that is made in the data folder; gateways that
	// share a database have to have the same, so there it is needed.
	Peppers []secret.String `key:"peppers" example:"[\"${PEPPER}\"]"`
	// How long keys that are known are served while the store cannot be reached.
	Stale duration `key:"stale" example:"1h"`
}

// fromText lets a store be written as its address alone.
func (s *storeFile) fromText(text string) { s.URL = secret.String(text) }

// redisFile is where limits are shared. It may be written as its url alone.
type redisFile struct {
	at
	// The address, `redis://` or with TLS `rediss://`.
	URL secret.String `key:"url" example:"redis://127.0.0.1:6379/0"`
}

// fromText lets it be written as its address alone.
func (r *redisFile) fromText(text string) { r.URL = secret.String(text) }

// pricesFile is what tokens cost.
type pricesFile struct {
	at
	// What is done with a request of a key that has a budget, for a model whose price
	// is not known: it is refused, or charged at the ceiling. The default is refuse.
	Unknown unknownName `key:"unknown" example:"ceiling"`
	// The price of what has none.
	Ceiling priceFile `key:"ceiling"`
	// Prices by target, as provider/model; one that ends in `*` stands for all that
	// begin so.
	Models table[priceFile] `key:"models"`
}

// priceFile is a price in dollars for a million tokens.
type priceFile struct {
	at
	// Tokens that were read anew.
	Input decimal `key:"input" example:"2.50"`
	// Tokens that were read from the provider's prompt cache. The default is input's.
	CacheRead decimal `key:"cache_read" example:"0.25"`
	// Tokens that were written to the provider's prompt cache. The default is
	// input's.
	CacheWrite decimal `key:"cache_write" example:"3.125"`
	// Tokens of the answer.
	Output decimal `key:"output" example:"10"`
	// Tokens that were spent on reasoning. The default is output's.
	Reasoning decimal `key:"reasoning" example:"10"`
}

// cacheFile is what is kept of answers to requests that leave nothing to chance.
type cacheFile struct {
	at
	// How long an answer is kept.
	TTL duration `key:"ttl" example:"10m"`
	// Memory for it, where there is no Redis.
	Size size `key:"size" example:"1GiB"`
}

// discoverFile is where workers are found.
type discoverFile struct {
	at
	// A cluster of etcd that workers register in.
	Etcd etcdFile `key:"etcd"`
	// A file with a list of workers as JSON, which is read again when it changes.
	File string `key:"file" example:"workers.json"`
	// Names in the DNS, each address of which is a worker.
	DNS []nameFile `key:"dns"`
	// The networks that workers may be in. What is elsewhere is not called.
	Networks []string `key:"networks" example:"[10.0.0.0/8]"`
	// The key that workers are called with. By default they get none.
	APIKey secret.String `key:"api_key" example:"${WORKER_KEY}"`
}

// etcdFile is a cluster of etcd.
type etcdFile struct {
	at
	// Its addresses.
	Endpoints []string `key:"endpoints" example:"[\"http://127.0.0.1:2379\"]"`
	// What its keys begin with.
	Prefix string `key:"prefix" example:"/isogloss/"`
	// The account, where it asks for one.
	Username string `key:"username" example:"isogloss"`
	// The account's password.
	Password secret.String `key:"password" example:"${ETCD_PASSWORD}"`
	// File with the certificates that are trusted, as PEM. The default is the
	// system's.
	CA string `key:"ca" example:"/etc/isogloss/etcd-ca.crt"`
	// File with the gateway's own certificate, as PEM.
	Cert string `key:"cert" example:"/etc/isogloss/etcd.crt"`
	// File with its private key, as PEM.
	Key string `key:"key" example:"/etc/isogloss/etcd.key"`
}

// nameFile is a name in the DNS behind which workers are.
type nameFile struct {
	at
	// The name. Its A and AAAA records are workers, or its SRV records where no port
	// is written.
	Name string `key:"name" example:"vllm.default.svc"`
	// The port that they listen on.
	Port int `key:"port" example:"8000"`
	// The model that they serve, by the name that clients use.
	Model string `key:"model" example:"llama-3-70b"`
	// The protocol that they speak.
	Protocol protocolName `key:"protocol" example:"openai-chat"`
}
