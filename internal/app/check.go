package app

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/app/usagesetup"
	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/ledger/alerts"
	"github.com/isogloss-gateway/isogloss/internal/targets/cloud"
)

// Check loads the configuration and reads the certificates, keys and peppers that Run
// reads. It opens no store, port or connection and writes nothing.
func (o Options) Check() (*config.Config, error) {
	cfg, err := o.LoadConfig()
	if err != nil {
		return nil, err
	}
	return cfg, checkFiles(cfg)
}

// warnOldPrices logs the lists of prices that are outdated.
func warnOldPrices(logger *slog.Logger, cfg *config.Config) {
	for _, list := range cfg.Prices.Old(time.Now()) {
		logger.Warn("prices may be outdated", "list", list, "hint", "look them up again and write the day as as_of")
	}
}

// checkFiles reports every file that the configuration names and start-up cannot use.
func checkFiles(cfg *config.Config) error {
	admin := cfg.Admin.TLS.CheckFiles("admin.tls")
	public := cfg.TLS.CheckFiles("tls")
	_, discovery := newDiscovery(cfg, slog.New(slog.DiscardHandler))
	_, identity := newVerifier(cfg.Identity)
	_, receivers := alerts.New(alerts.Options{Receivers: cfg.Alerts.Receivers()})
	var pepper, shared error
	if cfg.Redis.URL != "" {
		shared = redis.Check(redisOptions(cfg, slog.New(slog.DiscardHandler)))
	}
	if cfg.Store.SQLite() && len(cfg.Store.Peppers) == 0 {
		pepper = checkPepper(filepath.Join(cfg.Data, "pepper"), cfg)
	}
	return errors.Join(public, admin, discovery, pepper, shared, identity, receivers, checkClouds(cfg), usagesetup.Check(&cfg.Usage))
}

// checkClouds reports every credential of a cloud that cannot be used.
func checkClouds(cfg *config.Config) error {
	var list []error
	for _, p := range cfg.Providers {
		if p.Cloud == nil {
			continue
		}
		if err := cloud.Check(p.Cloud); err != nil {
			list = append(list, fmt.Errorf("providers.%s.%s: %w", p.Name, p.Auth, err))
		}
	}
	return errors.Join(list...)
}
