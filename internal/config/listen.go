package config

import (
	"fmt"
	"net"
	"reflect"
	"strconv"
)

// WithListen is the configuration with the command line's address in place of the
// file's. The address is held to the same rules: without keys, only this machine
// is served.
func (c *Config) WithListen(address string) (*Config, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("--listen: %q is not an address; write host:port, such as 127.0.0.1:8080", address)
	case !isLoopback(host) && !c.needsKey():
		return nil, fmt.Errorf("--listen: %q can be reached from other machines and no key is asked for; add keys or a store to the configuration, or listen on 127.0.0.1", address)
	case address == c.Admin.Listen && port != "0":
		return nil, fmt.Errorf("--listen: %q is the same address as admin.listen; choose another port", address)
	}
	changed := *c
	changed.Listen = address
	return &changed, nil
}

// StartsOtherwise reports whether a configuration differs from another in what is
// set up once, when the process starts.
func (c *Config) StartsOtherwise(from *Config) bool {
	return c.Listen != from.Listen || c.Admin != from.Admin || c.Log != from.Log || c.Traces != from.Traces || c.Node != from.Node || c.Data != from.Data ||
		c.Redis != from.Redis || c.Cache != from.Cache || !reflect.DeepEqual(c.Store, from.Store) || !reflect.DeepEqual(c.Discover, from.Discover)
}
