//go:build !testunit

package openaichat

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
)

// tagged returns the dialect as it is. With the build tag testunit it reports the unit of a test.
func tagged(d *codec.Dialect) *codec.Dialect { return d }
