package protocoltest_test

import (
	"flag"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol/all"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

var _ = flag.Bool("update", false, "rewrite the expected sections of the cases")

func TestPairs(t *testing.T) { protocoltest.Pairs(t, "testdata", all.Codecs()...) }
