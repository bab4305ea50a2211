package openairesponses

import (
	"flag"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

var _ = flag.Bool("update", false, "rewrite the expected sections of testdata")

func TestCodec(t *testing.T) { protocoltest.Run(t, Codec{}, "testdata") }
