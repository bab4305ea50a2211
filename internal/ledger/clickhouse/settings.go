package clickhouse

import (
	"net/url"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Settings is a database of ClickHouse.
type Settings struct {
	// Address of the HTTP interface, https or on this machine.
	URL string `key:"url" example:"https://clickhouse.internal:8443"`
	// Name of the database. `isogloss consume` creates the table requests in it if it is
	// not there.
	Database string `key:"database" pattern:"^[A-Za-z0-9_]{0,128}$" form:"a name of letters, digits and \"_\"" example:"isogloss"`
	// User name, if required.
	Username string `key:"username" example:"isogloss"`
	// Password of the user.
	Password secret.String `key:"password" example:"${CLICKHOUSE_PASSWORD}"`
	// PEM file with the trusted certificates. The default is the system's.
	CA string `key:"ca" is:"file" example:"/etc/isogloss/clickhouse-ca.crt"`
}

// Check checks the address.
func (s *Settings) Check(at *settings.At) {
	if u, err := url.Parse(s.URL); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || !safeurl.IsSafe(u) {
		at.Wrong("url", "is not an https URL without a user name; write one such as \"https://clickhouse.internal:8443\"")
	}
}
