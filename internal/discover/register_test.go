package discover

import (
	"context"
	"os"
	"strings"
)

// beRegistrar makes the test's binary a registrar that can be killed.
func beRegistrar() bool {
	spec := os.Getenv("TEST_REGISTRAR") // endpoint and id
	if spec == "" {
		return false
	}
	endpoint, id, _ := strings.Cut(spec, " ")
	_ = Register(context.Background(), RegisterOptions{Etcd: EtcdOptions{Endpoints: []string{endpoint}}, Worker: worker(id, "m"), TTL: 2e9})
	return true
}
